"""Who may what: each request has a principal."""
