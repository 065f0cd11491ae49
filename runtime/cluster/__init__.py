"""Deployments on Ray. Only this package imports Ray."""
