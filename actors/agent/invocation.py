"""One run of one agent in one turn, as its behaviour sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from actors.agent.environment import AgentEnvironment
from actors.agent.partials import PartialEvents
from actors.agent.session_view import SessionView
from actors.behaviours.callbacks import first_result
from actors.behaviours.lifecycle import callback_context
from actors.definitions.tools.context import Actions
from actors.definitions.tree.spec import AgentSpec
from actors.errors import FencedError, LlmCallsLimitExceededError, UnknownAgentError
from actors.errors.suggestions import did_you_mean
from actors.interfaces.context import ArtifactAccess, MemoryAccess
from actors.messages import protocol as p
from actors.messages.codec import decode, decode_event, encode, plain
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, USER, Event, EventActions, new_event_id, now_s
from actors.refs.access import SessionArtifacts, UserMemory
from actors.rules.checks.sizes import encoded
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.prompt.branches import tool_branch, tool_root
from actors.rules.prompt.history import History

_HOOKS = ("before_agent_callback", "after_agent_callback", "on_event_callback")
"""What may be called around the run of an agent that is neither a model's nor custom."""


class Invocation:
    """Implements `actors.interfaces.context.Context`.

    Args:
        spec: the agent.
        message: what to run.
        environment: what the agents of this process share.
        view: what the actor remembers of the session.
        counts: the actor's figures.
    """

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        environment: AgentEnvironment,
        view: SessionView,
        counts: dict[str, int],
    ) -> None:
        session = environment.session
        self.offload = environment.offload
        self.clock = environment.clock
        self.agent_name = spec.name
        self.invocation_id = message.turn.invocation_id
        self.key = message.turn.key
        self.user_id = message.turn.key.user
        self.session_id = message.turn.key.session
        self.branch = message.branch
        self.artifacts: ArtifactAccess = SessionArtifacts(environment.artifacts, message.turn.key)
        self.memory: MemoryAccess = UserMemory(session, message.turn.key)
        self.streaming = message.streaming
        self.resume_at = message.resume_at
        self.progress: Mapping[str, Any] = message.progress
        self.noted_seq = message.noted_seq
        self.is_resumed = message.resume
        self.done: Sequence[Event] = ()
        self.user_seq = message.user_event.seq
        self.run = message.turn.run
        self.waiting: Sequence[str] = ()
        self.escalated = False
        self.has_closed = False
        self.is_stopped = False
        self.llm_calls = 0
        self.state_seq = 0
        self._spec = spec
        self._message = message
        self._turn = message.turn
        self._session = session
        self._runner = environment.runner
        self._remembered = view
        self._counts = counts
        self._state: dict[str, Any] = {}
        self._partials = PartialEvents(session, message.turn)
        self._is_behind = False
        self._asked: set[str] = set()
        self.user_content: Content = decode_event(message.user_event.raw, message.user_event.seq).content or Content()

    async def begin(self) -> None:
        """Bring the state up to date; the view follows when it is asked for."""
        message = self._message
        if message.resume:
            await self._recall()
        is_llm = self._spec.definition.kind == "llm"
        if is_llm and message.fresh and self._remembered.can_follow(message.user_event, message.generation):
            self._remembered.follow(message.user_event, message.state)
            self._state = self._remembered.state
        elif message.fresh:
            self._is_behind = True
            self._state = decode(message.state, dict)
        elif is_llm:
            await self._catch_up()
        else:
            await self._read_state(message.state_seq)

    async def _recall(self) -> None:
        """What the run has left in the log before it was lost."""
        done = []
        async for fetched in self._news(self._message.since, self._message.generation):
            events = (decode_event(stored.raw, stored.seq) for stored in fetched.events)
            done += [event for event in events if self._is_own(event)]
        self.done = done
        self.escalated = any(event.actions.escalate for event in done)
        changes = [event.seq for event in done if event.actions.state_delta]
        self.state_seq = max(changes, default=0)

    def _is_own(self, event: Event) -> bool:
        """True for what this run has said, its notes of progress aside."""
        return (
            event.author == self.agent_name
            and event.branch == self.branch
            and event.invocation_id == self.invocation_id
            and event.seq > self._message.since
            and event.actions.agent_state is None
        )

    @property
    def state(self) -> Mapping[str, Any]:
        """Session state by prefixed keys, as of the last event."""
        return self._state

    async def view(self) -> History:
        """The log as the agent sees it."""
        if self._is_behind:
            await self._catch_up()
        if self._remembered.view.lacks(response.id for response in self.user_content.function_responses()):
            self._remembered.begin_anew()
            await self._catch_up()
        return self._remembered.view

    async def _catch_up(self) -> None:
        self._is_behind = False
        async for fetched in self._news(self._remembered.seq, self._remembered.generation):
            self._remembered.take_in(fetched)
        self._state = self._remembered.state

    async def _news(self, after_seq: int, generation: str) -> AsyncIterator[p.Fetched]:
        """What is in the log behind a place, page by page to its end."""
        more = True
        while more:
            fetched = await self._session.fetch(p.Fetch(key=self._turn.key, after_seq=after_seq, generation=generation))
            yield fetched
            generation, more = fetched.generation, fetched.more
            after_seq = fetched.events[-1].seq if fetched.events else after_seq

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Make an event known: see Context."""
        return await self.record(await self._seen_by_plugins(event), is_last=is_last)

    async def _seen_by_plugins(self, event: Event) -> Event:
        """The event, or what a plugin puts in its place."""
        functions = self._spec.hooks("on_event_callback")
        if not functions:
            return event
        event = self._addressed(event)
        actions = Actions()
        replaced = await first_result(functions, callback_context(self, actions), event)
        if replaced is not None:
            event = self._readdressed(replaced, event)
        if actions.freeze() == NO_ACTIONS:
            return event
        told = event.actions
        return msgspec.structs.replace(
            event,
            actions=msgspec.structs.replace(
                told,
                state_delta={**told.state_delta, **actions.state_delta},
                artifact_delta={**told.artifact_delta, **actions.artifact_delta},
            ),
        )

    def _addressed(self, event: Event) -> Event:
        return msgspec.structs.replace(
            event,
            id=event.id or new_event_id(),
            invocation_id=self.invocation_id,
            seq=0,
            author=event.author or self.agent_name,
            timestamp=event.timestamp or now_s(),
            branch=event.branch or self.branch,
        )

    def _readdressed(self, replaced: object, event: Event) -> Event:
        """What a plugin gave for an event, as the same entry of the log."""
        if not isinstance(replaced, Event):
            raise TypeError(f"on_event_callback must return an Event or None, not {type(replaced).__name__}")
        kept = {
            field: getattr(event, field) for field in ("id", "invocation_id", "author", "timestamp", "branch", "partial", "flow")
        }
        return msgspec.structs.replace(replaced, seq=0, **kept)

    async def record(self, event: Event, *, is_last: bool = False) -> Event:
        """Make an event known that plugins are not shown: see `emit`."""
        if self.is_stopped:
            # Foreign code may catch its cancellation and go on talking, while the turn around it is not fenced.
            raise FencedError(self.invocation_id, self._turn.epoch)
        changed = plain(event.actions.state_delta) if event.actions.state_delta else {}
        temp = only_temp(changed) if changed else {}
        if changed:
            actions = msgspec.structs.replace(event.actions, state_delta=without_temp(changed))
            event = msgspec.structs.replace(event, actions=actions)
        event = self._addressed(event)
        raw = encoded(event, self._spec.limits)
        if event.partial:
            self._counts["partials"] += 1
            await self._partials.send(raw)
            return event
        await self._partials.flush()
        self.has_closed = is_last and bool(self._message.closes)
        append = p.Append(
            turn=self._turn,
            events=[raw],
            temp=temp,
            outcome=p.Finished(agent=self.agent_name) if self.has_closed else None,
            selected=self._message.closes,
        )
        return self._stored(event, await self._session.append(append), changed, len(raw))

    async def emit_both(self, first: Event, second: Event) -> Event:
        """Make two events known together: see Context."""
        events = [self._addressed(await self._seen_by_plugins(event)) for event in (first, second)]
        if any(event.actions.state_delta for event in events):
            # Rare, and state has its own way into the log.
            return [await self.record(event) for event in events][-1]
        if self.is_stopped:
            raise FencedError(self.invocation_id, self._turn.epoch)
        await self._partials.flush()
        raws = [encoded(event, self._spec.limits) for event in events]
        appended = await self._session.append(p.Append(turn=self._turn, events=raws))
        self._stored(events[0], appended, {}, len(raws[0]))
        behind = msgspec.structs.replace(appended, first_seq=appended.first_seq + 1)
        return self._stored(events[1], behind, {}, len(raws[1]))

    def _stored(self, event: Event, appended: p.Appended, changed: Mapping[str, Any], size: int) -> Event:
        stored = msgspec.structs.replace(event, seq=appended.first_seq)
        self._counts["events"] += 1
        self.escalated = self.escalated or bool(event.actions.escalate)
        self._state.update(changed)
        if changed:
            self.state_seq = stored.seq
            self._remembered.changed_state(stored.seq, appended.state_seq)
        if self._is_behind or not self._remembered.add_own(stored, size):
            # Others wrote in between, or the log was never read: what is missing is fetched when it is needed.
            self._is_behind = True
        return stored

    async def take_llm_call(self) -> None:
        """Count one model call, out of what the Invoke allowed or by asking the Runner."""
        self._counts["llm_calls"] += 1
        if self._message.llm_calls is None:
            await self._runner.take_llm_call(p.TakeLlmCall(turn=self._turn, agent=self.agent_name))
        elif self.llm_calls >= self._message.llm_calls:
            raise LlmCallsLimitExceededError(self.agent_name, self._message.llm_limit)
        else:
            self.llm_calls += 1

    async def run_agent(self, name: str) -> p.AnyOutcome:
        """Run a child: see InvocationContext."""
        children = self._spec.children
        if name not in children:
            told = f" {self.agent_name!r} has the children: {', '.join(children) or 'none'}."
            raise UnknownAgentError(name, told + did_you_mean(name, children))
        # Which of several runs of the same child were over when this run was lost is not told; the first may have been.
        resume = self.is_resumed and name not in self._asked
        self._asked.add(name)
        outcome = await self.run_child(name, resume=resume)
        if isinstance(outcome, p.Paused):
            self.waiting = (*self.waiting, *outcome.call_ids)
        await self._read_state(outcome.state_seq)
        return outcome

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: Mapping[str, Any] | None = None, resume: bool = False
    ) -> p.AnyOutcome:
        """Run a child: see SupervisorContext."""
        ask = self._runner.run_child(
            p.RunChild(turn=self._turn, parent=self.agent_name, child=name, branch=branch or self.branch, resume=resume)
        )
        if progress is None:
            outcome = await ask
        else:
            # The note is on its way to the log before the child can be: both go at the same time.
            _, outcome = await asyncio.gather(self.note(progress), ask)
        self.escalated = self.escalated or outcome.escalated
        if self._spec.definition.kind != "custom":
            await self._read_state(outcome.state_seq)
        return outcome

    async def ask_agent(self, name: str, call_id: str, content: Content) -> tuple[p.AnyOutcome, str]:
        """Run an agent that is a tool: see Context."""
        if name not in self._spec.tool_agents:
            known = ", ".join(self._spec.tool_agents) or "none"
            raise UnknownAgentError(name, f" {self.agent_name!r} has these agents as tools: {known}.")
        branch = tool_branch(self.branch, self.agent_name, call_id)
        asked = self._addressed(Event(author=USER, branch=branch, content=content))
        raw = encode(asked)
        seq = (await self._session.append(p.Append(turn=self._turn, events=[raw]))).first_seq
        self._is_behind = True
        message = p.RunChild(
            turn=self._turn, parent=self.agent_name, child=name, branch=branch, user_event=p.StoredEvent(seq, raw)
        )
        try:
            outcome = await self._runner.run_child(message)
        except asyncio.CancelledError:
            # Nobody is left to hear the answer.
            with suppress(FencedError):
                await self._runner.stop_branch(p.StopBranch(turn=self._turn, branch=branch))
            raise
        return outcome, await self._last_said(branch, seq)

    async def _last_said(self, branch: str, after_seq: int) -> str:
        """The text of the last final response on a tool branch; the state is brought up to date by the way."""
        said = ""
        async for fetched in self._news(after_seq, self._message.generation):
            for stored in fetched.events:
                event = decode_event(stored.raw, stored.seq)
                if tool_root(event.branch) == branch and event.author != USER and event.is_final_response():
                    said = event.text or said
            # In place: the contexts of tools that run beside this one read it too.
            self._state.update(decode(fetched.state, dict))
        return said

    async def note(self, progress: Mapping[str, Any], custom_metadata: dict[str, Any] | None = None) -> None:
        """Leave in the log how far the run is: see SupervisorContext."""
        stored = await self.record(Event(custom_metadata=custom_metadata, actions=EventActions(agent_state=dict(progress))))
        self.noted_seq = stored.seq

    async def stop_branch(self, branch: str) -> None:
        """Stop every run on a branch: see SupervisorContext."""
        await self._runner.stop_branch(p.StopBranch(turn=self._turn, branch=branch))

    async def _read_state(self, state_seq: int) -> None:
        """The state alone, as of place `state_seq` at least, and only where code may read it.

        Whoever is no LLM agent needs no compiled log.
        """
        self._is_behind = True
        if self._remembered.knows_state(self._turn, state_seq):
            self._state = self._remembered.state
        elif self._spec.definition.kind == "custom" or any(map(self._spec.hooks, _HOOKS)):
            fetched = await self._session.fetch(p.Fetch(key=self._turn.key, state_only=True))
            self._state = self._remembered.read_state(self._turn, fetched)
