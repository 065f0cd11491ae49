"""From definitions to the tree of a deployment, and to what each agent's actor is given of it."""

from actors.definitions.tree.spec import AgentSpec
from actors.definitions.tree.tree import AgentTree

__all__ = ["AgentSpec", "AgentTree"]
