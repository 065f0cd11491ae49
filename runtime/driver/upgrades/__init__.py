"""Another release of raygrove goes on with a deployment."""
