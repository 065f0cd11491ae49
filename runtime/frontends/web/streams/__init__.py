"""Server-sent events: frames, the response that sends them, and what goes into them."""
