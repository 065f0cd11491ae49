"""Tables of the session store that are defined apart from the others, each group with its migration."""
