"""What happens after a failure."""
