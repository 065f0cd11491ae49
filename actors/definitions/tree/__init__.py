"""The tree of a deployment, made of definitions; and what each agent's actor is given of it."""

from actors.definitions.tree.spec import AgentSpec
from actors.definitions.tree.tree import AgentTree

__all__ = ["AgentSpec", "AgentTree"]
