"""The commands that show what happened in a deployment, and why."""
