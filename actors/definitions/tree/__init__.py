"""The part of a deployment's tree that an agent's actor is given."""
