"""Commands for deployments that run on Ray: they join one by its name, and leave it as it is."""
