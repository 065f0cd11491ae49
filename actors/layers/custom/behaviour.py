"""What a custom agent does: run the generator that its author wrote."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import cast

from actors.agent.invocation import Invocation
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.outgoing import MessageContext, Outgoing
from actors.errors import FencedError, UnknownAgentError
from actors.errors.hints import did_you_mean
from actors.interfaces.access import MemoryAccess, RunSession
from actors.layers.custom.definitions import HOW_TO_RUN, CustomAgent
from actors.layers.memory import UserMemory
from actors.messages.event import USER, Event, EventActions
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.runs import AnyOutcome, Finished, Paused, Transfer
from actors.rules.routing.pending import is_interim

_WRITE = "for a text write Event(content=Content.of_text(…, role='model'))"


async def run_custom(spec: AgentSpec, context: Invocation) -> AnyOutcome:
    """Run the generator to its end, and store each of its events as it comes.

    A lost run begins again, because where its code was is not known; the first events that it yields then are taken for those
    that the log has, and are not stored again. Code that resumes itself yields new ones only.
    """
    definition = cast(CustomAgent, spec.definition)
    resumes_itself = definition.resumes_itself
    stored_before = deque(event for event in context.done if event.content is not None and not resumes_itself)
    given = CustomContext(spec, context)
    inbox = context.inbox
    # Ends of background runs may have waited for the next turn.
    inbox.notify()
    if stored_before:
        inbox.begins_again, inbox.repeats_seq = True, stored_before[0].seq
    outcome: AnyOutcome = Finished()
    if resumes_itself:
        await given.recall_open_calls()
    async with _events_of(definition, given) as events:
        async for event in events:
            if not isinstance(event, Event):
                raise TypeError(f"{type(definition).__name__}.run must yield Events, not {type(event).__name__}: {_WRITE}")
            if stored_before and event.partial:
                continue
            is_repeated = stored_before and event.content is not None
            if is_repeated:
                stored = stored_before.popleft()
                context.repeat(stored)
                inbox.repeats_seq = stored_before[0].seq if stored_before else inf
            else:
                stored = await context.emit(event)
            if resumes_itself:
                given.note_open_calls(stored)
            if stored.actions.transfer_to_agent is not None:
                outcome = Transfer(to=stored.actions.transfer_to_agent, seq=stored.seq)
    if isinstance(outcome, Finished) and given.waiting:
        outcome = Paused(call_ids=given.waiting)
    return outcome


@asynccontextmanager
async def _events_of(definition: CustomAgent, given: CustomContext) -> AsyncIterator[AsyncIterable[object]]:
    events: object = definition.run(given)
    if not isinstance(events, AsyncIterable):
        if inspect.iscoroutine(events):
            # Python warns of coroutines that are never run.
            events.close()
        raise TypeError(f"{type(definition).__name__}.run returned a {type(events).__name__}: {HOW_TO_RUN}")
    try:
        yield events
    finally:
        # It runs the generator's `finally` blocks here and now, also when the turn is cancelled. Not all iterators have it.
        close = cast("Callable[[], Awaitable[None]] | None", getattr(events, "aclose", None))
        if close is not None:
            await close()


class CustomContext(MessageContext):
    """Implements InvocationContext, and keeps which calls the agents wait for that user code ran.

    Attributes:
        waiting: the open calls for which these agents wait, and those of the agent itself.
    """

    def __init__(self, spec: AgentSpec, context: Invocation) -> None:
        self.agent_name = context.agent_name
        self.invocation_id = context.invocation_id
        self.user_id = context.user_id
        self.session_id = context.session_id
        self.branch = context.branch
        self.run_config = context.run_config
        self.user_content = context.user_content
        self.artifacts = context.artifacts
        self.memory: MemoryAccess = UserMemory(context.parts.environment.session, context.message.turn.key)
        self.session = RunSession(context.log, lambda: context.state)
        self.waiting: tuple[str, ...] = ()
        self.done = context.done
        self._children = spec.children
        self._context = context
        self._ran: set[str] = set()
        place = f"{context.branch} {context.node_path} {context.message.place}"
        self._outgoing = Outgoing(context, context.inbox, place)

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event."""
        return self._context.state

    async def change_state(self, changes: JsonMapping) -> None:
        """Store changes of the state: see InvocationContext."""
        await self._context.emit(Event(actions=EventActions(state_delta=dict(changes))))

    async def recall_open_calls(self) -> None:
        """Note which calls of the agent waited for an answer when its run was lost or paused, and still do."""
        for event in self.done:
            self.note_open_calls(event)
        if self.waiting:
            log = await self.session.read_events()
            answered = {response.id for event in log if event.author == USER for response in event.function_responses()}
            self.waiting = tuple(call for call in self.waiting if call not in answered)

    def note_open_calls(self, event: Event) -> None:
        """Note which calls of the agent itself wait for an answer."""
        if event.partial:
            return
        answered = {response.id for response in event.function_responses() if not is_interim(response.response)}
        still_open = [call for call in self.waiting if call not in answered]
        self.waiting = tuple(dict.fromkeys([*still_open, *event.long_running_tool_ids]))

    async def run_agent(self, name: str) -> AnyOutcome:
        """Run a child: see InvocationContext."""
        if name not in self._children:
            known = f" {self.agent_name!r} has the children: {', '.join(self._children) or 'none'}."
            raise UnknownAgentError(name, known + did_you_mean(name, self._children))
        # The log does not tell several runs of a child apart: only the first may be one that the lost run had begun.
        resume = self._context.is_resumed and name not in self._ran
        self._ran.add(name)
        try:
            outcome = await self._context.run_child(name, resume=resume)
        except asyncio.CancelledError:
            # Where this run is being stopped itself, the child is as well.
            with suppress(FencedError):
                await self._context.stop_child(name)
            raise
        if isinstance(outcome, Paused):
            self.waiting = (*self.waiting, *outcome.call_ids)
        return outcome
