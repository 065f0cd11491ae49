"""`raygrove batch`: turns over the lines of a file."""
