"""The agent that the user's own code drives."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal, Protocol

from actors.definitions.agents.base import BaseAgent
from actors.definitions.tools.outgoing import MessageContext
from actors.errors import DefinitionError
from actors.interfaces.access import MemoryAccess, RunSession
from actors.interfaces.context import RunContext
from actors.messages.event import Event
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.runs import AnyOutcome

HOW_TO_RUN = "write it as `async def run(self, context)` and `yield` each Event"


class InvocationContext(RunContext, MessageContext, Protocol):
    """What a CustomAgent is given.

    Attributes:
        agent_name: the agent that runs.
        invocation_id: the turn.
        user_id, session_id: whose conversation.
        branch: the parallel branch it runs on, None outside of any.
        run_config: the options of the turn.
        user_content: the message that opened the turn.
        artifacts: the session's artifacts.
        memory: the user's memory.
        state: session state by prefixed keys, as of the last event.
        done: the run's own events until it was lost or paused, oldest first; empty when it begins.
    """

    memory: MemoryAccess
    done: Sequence[Event]

    @property
    def session(self) -> RunSession:
        """The session, to look at: its ids, its state as it is now, and its events after `await session.read_events()`."""
        ...

    async def change_state(self, changes: JsonMapping) -> None:
        """Store changes of the state now, as an event does that has nothing else; None removes a key.

        Unlike an event that is yielded, it can come from anywhere in the agent's code, and is stored again when `run` begins
        again.

        Raises:
            NotEncodableError: a value is not JSON.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def run_agent(self, name: str) -> AnyOutcome:
        """Run an agent directly below this one, and return how its run ended.

        Who stops waiting, by `asyncio.timeout` for example, stops that run.

        When that is Paused, the agent waits for the answer to a long-running call: return, and the turn is paused. With the
        answer `run` begins again; events that it yielded before are not stored again, and an agent that has finished is not run
        again.

        Raises:
            UnknownAgentError: there is no such child; the message names the nearest.
            FencedError: the turn was taken over or has ended.
        """
        ...


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
