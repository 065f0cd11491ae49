"""Runs the agents of google-adk as they are: `from_adk` makes a tree of actors of them. Install `raygrove[adk]` for it."""

from runtime.integrations.adk.convert import Adapted, from_adk

__all__ = ["Adapted", "from_adk"]
