"""The client of an agent's actor."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from actors.interfaces.transport import EarlyReply
from actors.messages import protocol as p
from actors.messages.protocol.request import replies_to
from actors.refs.base import Ref


class AgentRef(Ref):
    """A client of an agent's actor."""

    def invoke(self, message: p.Invoke, begun: Callable[[], None] | None = None) -> Coroutine[Any, Any, p.AnyOutcome]:
        """Run the agent and return how the run ended.

        Args:
            begun: called when the run is under way, if the message asks for that. Links of Ray's do not tell.
        """
        early: EarlyReply | None = None if begun is None else lambda _: begun()
        return self._ask(message, replies_to(p.Invoke), early=early)
