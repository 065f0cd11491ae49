"""The protocol of connections by itself: bytes in, events and bytes out. No event loop, clock, socket, thread or randomness."""
