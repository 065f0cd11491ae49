"""Tables of the session store that are defined apart from the others."""
