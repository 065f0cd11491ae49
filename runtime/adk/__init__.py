"""Runs the agents of google-adk as they are: `from_adk` makes a tree of actors of them. It needs the extra `raygrove[adk]`.

ADK's objects do what their users wrote: callbacks, tools, models, `_run_async_impl`. What is decided and stored, such as which
agent answers, the log, state, artifacts, memory and limits, is raygrove's.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from actors.errors import DefinitionError

if TYPE_CHECKING:
    from runtime.adk.convert import Adapted, from_adk

__all__ = ["Adapted", "from_adk"]


def _require_adk() -> None:
    """Check that google-adk is installed. Raises DefinitionError, which says how to install it."""
    try:
        found = find_spec("google.adk")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise DefinitionError("agents of google-adk need the extra `adk`: pip install 'raygrove[adk]'")


_require_adk()


def __getattr__(name: str) -> object:
    # The processes of agents import what their agents are made of, and convert no tree.
    if name in __all__:
        return getattr(import_module("runtime.adk.convert"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
