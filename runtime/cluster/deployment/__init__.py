"""Deployments on Ray: started by this program, or joined."""
