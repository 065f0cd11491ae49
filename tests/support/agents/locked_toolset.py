"""A toolset that needs a key of the user before it says which tools it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors import CallbackContext, CredentialRequest, FunctionTool, ReadonlyContext, Tool, Toolset


class LockedToolset(Toolset):
    """Has its tool when the user has given a key in the turn.

    Args:
        function: the tool.
    """

    per_run = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool] | CredentialRequest:
        """Return the tool, or ask."""
        if await self.credential_answer(context, "vault") is None:
            return CredentialRequest("vault", {"message": "Which key?"})
        return [FunctionTool(self._function)]


def count_begin(context: CallbackContext) -> None:
    """Count how often the agent begins."""
    context.state["begun"] = context.state.get("begun", 0) + 1
