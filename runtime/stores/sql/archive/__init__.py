"""The archive of a session's old events: their bytes, compressed in blocks, in the same database."""
