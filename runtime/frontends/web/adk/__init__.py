"""The paths of ADK's own server, over the same service: front ends that speak them work unchanged."""
