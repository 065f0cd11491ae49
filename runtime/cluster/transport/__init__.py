"""Messages between processes: Ray actors, the links to them, and stand-ins for what lives elsewhere."""
