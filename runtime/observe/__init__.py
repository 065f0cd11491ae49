"""What of the running system can be watched."""
