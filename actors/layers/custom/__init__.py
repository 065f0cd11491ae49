"""Custom agents: what users write themselves as an async generator of events."""
