"""The agent that the user's own code drives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar, Literal

from actors.definitions.agents.base import Agent
from actors.interfaces.context import InvocationContext
from actors.messages.event import Event


class CustomAgent(Agent):
    """Subclass it and write `run`. The instance travels to the agent's actor by pickling, so keep plain data in it.

    One instance serves many sessions at once: keep nothing of a run in it, but in `context.state`.
    """

    kind: ClassVar[Literal["custom"]] = "custom"

    def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Do the agent's work: an async generator of events.

        Author, ids and timestamp are filled in where they are empty. Each complete event is on disk when the generator goes on.

        When its process is lost, or the answer comes to what an agent below it waits for, it is called again and has to come the
        same way: the first events that it yields then are those that the log has, and are not stored again.

        Args:
            context: the turn, its state, and `await context.run_agent("child")`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define run(self, context), an async generator of events")
