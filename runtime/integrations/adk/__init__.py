"""Runs the agents of google-adk as they are: `convert` makes a tree of actors of them. It needs the extra `raygrove[adk]`.

ADK's objects do what their users wrote: callbacks, tools, models, `_run_async_impl`. What is decided and stored, such as which
agent answers, the log, state, artifacts, memory and limits, is raygrove's.
"""

from __future__ import annotations

from importlib.util import find_spec

from actors.errors import DefinitionError


def _require_adk() -> None:
    """Check that google-adk is installed. Raises DefinitionError, which says how to install it."""
    try:
        found = find_spec("google.adk")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise DefinitionError("agents of google-adk need the extra `adk`: pip install 'raygrove[adk]'")


_require_adk()
