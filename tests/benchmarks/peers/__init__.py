"""The same turns by other projects.

A peer is a module that runs in an environment of its own. All it knows of this project is `peer`, which is plain Python: what is
measured, and how. Each does what our own turn does: one message of the user, one agent whose model answers at once by way of
the project's own interface for models, and everything in the project's own store on disk, as it sets that up itself.
"""
