"""What programs tell of maps and evaluations that they run."""
