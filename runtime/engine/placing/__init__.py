"""A deployment with several stores."""
