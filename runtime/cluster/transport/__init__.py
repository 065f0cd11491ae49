"""Messages between processes: Ray actors, the links to them, and proxies of what lives elsewhere."""
