"""Toolsets: they are opened once for all agents of a process, and large ones are searched."""
