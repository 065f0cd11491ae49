"""What stands for services of google-adk in a run: artifacts, memory, the session, and credentials of users."""
