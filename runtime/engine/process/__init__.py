"""What every process has in which actors live: threads for tools, environment variables, and how often it looks for garbage."""
