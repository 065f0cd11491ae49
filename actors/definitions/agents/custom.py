"""The agent that the user's own code drives."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Literal

from actors.definitions.agents.base import BaseAgent
from actors.errors import DefinitionError
from actors.interfaces.context import InvocationContext
from actors.messages.event import Event

HOW_TO_RUN = "write it as `async def run(self, context)` and `yield` each Event"


class CustomAgent(BaseAgent):
    """An agent whose work is a method: subclass it and write `run`.

    The instance is pickled to the agent's actor, so its fields must be plain data. One instance serves many sessions at once:
    keep what belongs to a run in `context.state`, not in the instance.

    Attributes:
        resumes_itself: of its class: when `run` is called again it goes on where the log ends, so all that it yields then is
            new. It finds what it has yielded before in `context.done`. Calls in its events with `long_running_tool_ids` pause the
            turn, and the answer calls `run` again. Default False: `run` yields the same events again.
    """

    kind: ClassVar[Literal["custom"]] = "custom"
    resumes_itself: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.run is CustomAgent.run and hasattr(cls, "_run_async_impl"):
            raise DefinitionError(
                f"{cls.__name__} defines _run_async_impl: the method of a CustomAgent is run(self, context), an async generator "
                "of events, and it runs its children by await context.run_agent(name)"
            )
        if inspect.iscoroutinefunction(cls.run):
            raise DefinitionError(f"{cls.__name__}.run has no yield, so it is no async generator: {HOW_TO_RUN}")
        if inspect.isgeneratorfunction(cls.run):
            raise DefinitionError(f"{cls.__name__}.run is a generator, but no async one: {HOW_TO_RUN}")

    def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Do the agent's work, as an async generator of events.

        Empty authors, ids and timestamps of events are filled in. Each complete event is stored before the generator goes on.

        `run` is called again when the agent's process was lost, and when the answer has come for which an agent below it waits.
        It must then yield the same events in the same order, unless it `resumes_itself`: those that are in the log already are
        not stored again.

        Args:
            context: the turn, its state, and `await context.run_agent("child")`.

        Returns:
            An async generator, or another async iterator. Other methods are refused with a DefinitionError when the class is
            made, and what can only be seen in a run fails it with a TypeError.

        Raises:
            Exception: fails the agent's run.
        """
        raise NotImplementedError(f"{type(self).__name__} must define run(self, context), an async generator of events")
