"""Messages between processes: Ray actors, links to them, and definitions of flows that others keep."""
