"""Features of the actors that join the core at its seams: see docs/architecture.md. No module of the core imports one."""
