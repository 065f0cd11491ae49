"""What crosses from programs of one release of raygrove to those of another, and deployments that are changed under load."""
