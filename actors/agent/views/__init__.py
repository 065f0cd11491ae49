"""What agents remember of the sessions in which they spoke."""
