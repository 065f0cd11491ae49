"""Where logs and artifacts last."""
