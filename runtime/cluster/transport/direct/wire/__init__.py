"""The bytes on a connection: the handshake, then frames. Both sides of each."""
