"""Runs the agents of google-adk as they are: `from_adk` makes a tree of actors of them. Install `raygrove[adk]` for it."""

from actors.layers.trees.tree import Adapted
from runtime.integrations.adk.convert import from_adk

__all__ = ["Adapted", "from_adk"]
