"""What turns have used, as the session store keeps it."""
