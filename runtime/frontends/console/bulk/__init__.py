"""Commands that find turns of a deployment, and act on many of them."""
