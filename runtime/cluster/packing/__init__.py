"""How definitions travel from a driver to the processes of a deployment."""
