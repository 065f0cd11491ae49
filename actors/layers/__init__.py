"""Features of the actors that join the core at its seams: see docs/extending.md. No module of the core imports one."""
