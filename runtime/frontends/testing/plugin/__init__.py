"""The pytest plugin by its former name."""
