"""Engines for deployments on Ray: started by this program, or joined."""
