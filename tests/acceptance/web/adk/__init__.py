"""The service as clients of google-adk use it."""
