"""One of several stores."""
