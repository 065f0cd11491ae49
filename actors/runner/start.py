"""How a turn starts: it is let in, its message is prepared, the Session actor opens it, and it is launched, or joined."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol, cast

import msgspec

from actors.actor import KeyedLocks
from actors.definitions.tools.context import Actions
from actors.errors import (
    ActorRestartsError,
    ArtifactError,
    InputSchemaError,
    InvalidMessageError,
    ModelConfigurationError,
    RepeatMismatchError,
    StoreError,
    UserElsewhereError,
)
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import Budget
from actors.messages.content import Content, Part
from actors.messages.event import (
    ADDRESSED,
    FINGERPRINT,
    NO_ACTIONS,
    USER,
    Event,
    EventActions,
    decode_event,
    encode_event,
    new_event_id,
    now_s,
    words_id,
)
from actors.messages.flow import CONTROLLER, FlowMark
from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, TurnKey
from actors.messages.topology import GRAPH, Topology
from actors.refs import SessionRef
from actors.rules.checks import state
from actors.rules.checks import user_message as messages
from actors.rules.checks.state import without_temp
from actors.rules.checks.user_message import misfit, shapeless
from actors.rules.checks.values import check_event
from actors.runner.admission import OpenSlot, TurnAdmission
from actors.runner.environment import RunnerEnvironment, RunnerPlace
from actors.runner.recovery import TurnResumer
from actors.runner.running_turn import OpeningMessage, RunningTurn
from actors.runner.turns import TurnTable, TurnTasks
from actors.runner.versions import TurnVersions, VersionParts

logger = logging.getLogger(__name__)


class PreparedMessage(msgspec.Struct, frozen=True):
    """A message that can be stored.

    Attributes:
        found: what the Session actor knows of its turn.
        content: the message as plugins leave it, its data replaced by where it is saved.
        answers: the ids of the calls that it answers.
        actions: the actions that plugins took; None: no plugin has seen it.
    """

    found: p.TurnFound
    content: Content
    answers: tuple[str, ...] = ()
    actions: Actions | None = None


NOTHING_FOUND = p.TurnFound(authors=())
"""What is known of the turn of a plain message: nothing needs to be."""


class UserMessages:
    """Prepares users' messages.

    Args:
        versions: which agent would get the message, which agents cannot run, and the plugins' hooks on messages.
    """

    def __init__(self, environment: RunnerEnvironment, versions: TurnVersions) -> None:
        self._session = environment.session
        self._artifacts = environment.artifacts
        self._store_timeout_s = environment.store_timeout_s
        self._limits = environment.limits
        self._versions = versions

    async def prepare(self, message: p.StartTurn, content: Content) -> PreparedMessage:
        """Do everything that comes before the message is stored; nothing when its turn is there already.

        Raises:
            UnknownFunctionCallError, SessionNotFoundError, ModelConfigurationError: no agent can take the message.
            InvalidMessageError, PluginFailedError: what plugins made of it.
            TooLargeError, ArtifactError: it cannot be stored.
        """
        answers = messages.answers(content)
        if answers or self._needs_agent() or saves(message, content) or self._topology.root.input_schema is not None:
            found = await self._look_ahead(message, content, answers)
        else:
            found = NOTHING_FOUND
        if found.is_there:
            return PreparedMessage(found, content, answers)
        agent = self._expected_agent(message, found)
        obstacles = self._versions.current.directory.obstacles
        if agent in obstacles:
            raise ModelConfigurationError(*obstacles[agent])
        invocation_id = found.invocation_id or message.invocation_id
        actions = None
        hooks = self._versions.current.hooks
        if hooks.has_message_hooks and (message.due is None or message.due.is_new):
            # Plugins see the message as it was sent, with its data. They have seen one that has waited.
            content, actions = await hooks.on_user_message((message.key, invocation_id), agent, content, message)
        if (wrong := misfit(content, found.questions)) is not None:
            raise InvalidMessageError(wrong)
        self._check_input(message, found, content)
        content = await self._without_blobs(message, content, invocation_id)
        return PreparedMessage(found, content, answers, actions)

    def _check_input(self, message: p.StartTurn, found: p.TurnFound, content: Content) -> None:
        """Check what begins a graph that is the root. Raises InputSchemaError."""
        root = self._topology.root
        if root.input_schema is None or found.caller or message.flow or message.config.agent not in ("", root.name):
            return
        if (wrong := shapeless(content.text, root.input_schema)) is not None:
            raise InputSchemaError(root.name, wrong)

    async def _look_ahead(self, message: p.StartTurn, content: Content, answers: tuple[str, ...]) -> p.TurnFound:
        """Look up what must be known before the message is stored."""
        may_answer_task = self.may_answer_task(message, answers)
        repeated = message.invocation_id if message.repeatable and (saves(message, content) or may_answer_task) else ""
        return await self._session.ask(
            p.FindTurn(
                key=message.key,
                call_ids=answers,
                invocation_id=repeated,
                fingerprint=message.fingerprint,
                auto_create=message.auto_create,
                may_answer_task=may_answer_task,
                event_id=words_id(message.invocation_id) if self._may_join(message, answers) and message.repeatable else "",
                wants_questions=self._topology.has_graphs,
            )
        )

    def may_answer_task(self, message: p.StartTurn, answers: Sequence[str]) -> bool:
        """True for words for which an agent may wait that works on a task with the user."""
        is_said = message.due is None or (message.due.is_message and not message.due.is_sent)
        return self._versions.has_tasks and not answers and not message.flow and is_said

    def event_id(self, message: p.StartTurn, answers: Sequence[str]) -> str:
        """The id for the event of a message, the same in a retry; "" for a new one."""
        return words_id(message.invocation_id) if self._may_join(message, answers) else message.event_id

    def _may_join(self, message: p.StartTurn, answers: Sequence[str]) -> bool:
        """True for words that another turn than their own may have: its log says so."""
        return self.may_answer_task(message, answers) or message.config.on_concurrent_turn == "steer"

    @property
    def _topology(self) -> Topology:
        return self._versions.current.routing.topology

    def _needs_agent(self) -> bool:
        """Some agents cannot run here, or plugins want to know the agent of a message."""
        version = self._versions.current
        return bool(version.directory.obstacles) or version.hooks.has_message_hooks

    def _expected_agent(self, message: p.StartTurn, found: p.TurnFound) -> str:
        """The agent that would get the message now; "" if the agent does not matter yet.

        Other turns may run before this one and change the answer, so the agent is selected when the turn is open.
        """
        if not self._needs_agent():
            return ""
        routing, addressed = self._versions.current.routing, message.config.agent
        return CONTROLLER if message.flow else routing.select(found.authors, found.caller, addressed)

    async def _without_blobs(self, message: p.StartTurn, content: Content, invocation_id: str) -> Content:
        """The message with its inline data moved to the artifact store, if the RunConfig says so."""
        if not saves(message, content):
            return content
        without = messages.without_blobs(content, invocation_id)
        # Check first, so that a refused message leaves no artifacts behind.
        check_event(USER, len(encode(without)), self._limits)
        state.check(message.state_delta)
        for index, part in enumerate(content.parts):
            if part.inline_data is not None:
                filename = messages.artifact_name(invocation_id, index)
                await self._save(message.key, filename, part)
        return without

    async def _save(self, key: SessionKey, filename: str, part: Part) -> None:
        """Save an artifact. Raises ArtifactError, also when the store does not answer: it may keep no thread from others."""
        try:
            async with asyncio.timeout(self._store_timeout_s):
                await asyncio.to_thread(self._artifacts.save, key, filename, part)
        except TimeoutError as error:
            raise ArtifactError(filename, f"the store has not answered within {self._store_timeout_s:g} s") from error


def saves(message: p.StartTurn, content: Content) -> bool:
    """True when there is data in the message that goes to the artifact store."""
    return message.config.save_input_blobs_as_artifacts and messages.has_blobs(content)


def user_event(message: p.StartTurn, content: Content, event_id: str, invocation_id: str, actions: Actions | None) -> Event:
    """The event of a message."""
    return Event(
        id=event_id or new_event_id(),
        invocation_id=invocation_id,
        author=USER,
        timestamp=now_s(),
        content=content,
        custom_metadata=_metadata(message),
        actions=_actions(message.state_delta, actions),
        # A Runner that resumes the turn learns from the mark that it carries out a flow, and which.
        flow=FlowMark(run=message.flow) if message.flow else None,
    )


def _actions(state_delta: StateDelta, actions: Actions | None) -> EventActions:
    if actions is None:
        return EventActions(state_delta=without_temp(state_delta)) if state_delta else NO_ACTIONS
    return EventActions(state_delta=without_temp(state_delta), artifact_delta=actions.artifact_delta)


def _metadata(message: p.StartTurn) -> JsonObject | None:
    given = message.config.custom_metadata
    if message.config.agent:
        given = {**(given or {}), ADDRESSED: message.config.agent}
    return {**(given or {}), FINGERPRINT: message.fingerprint} if message.fingerprint else given


class Opening(msgspec.Struct, eq=False):
    """A request that opens a turn.

    Attributes:
        event, raw: the message as an event, and encoded.
        slot: of the gate.
    """

    message: p.StartTurn
    prepared: PreparedMessage
    event: Event
    raw: bytes
    key: TurnKey
    slot: OpenSlot


class StartingHook(Protocol):
    """The part of a feature in the start of turns."""

    async def before(self, message: p.StartTurn, due: ScheduledTime, event_id: str) -> None:
        """Called before a turn that is due is opened, for one message of a session after the other."""
        ...

    async def left(self, message: p.StartTurn, turn: TurnKey) -> None:
        """Called when the message was left for a turn that runs, in place of its own."""
        ...


class TurnStarter:
    """Starts turns.

    Args:
        recovery: resumes turns that are in the way, or that are joined, and lost.
        daily_budget: of the app, which every turn is given; None: there is none.

    Attributes:
        hooks: see `StartingHook`.
    """

    def __init__(
        self,
        place: RunnerPlace,
        session: SessionRef,
        versions: TurnVersions,
        user_messages: UserMessages,
        table: TurnTable,
        tasks: TurnTasks,
        recovery: TurnResumer,
        admission: TurnAdmission,
        daily_budget: Budget | None = None,
    ) -> None:
        self._place = place
        self._session = session
        self._versions = versions
        self._user_messages = user_messages
        self._table = table
        self._tasks = tasks
        self._recovery = recovery
        self._admission = admission
        self._daily_budget = daily_budget
        self._in_order: KeyedLocks[SessionKey] = KeyedLocks()
        # Messages of turns that requests open now, with the fingerprints of the requests for which they were prepared.
        self._prepared: dict[TurnKey, tuple[str, PreparedMessage]] = {}
        self.hooks: list[StartingHook] = []

    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Check the message, store it, select the agent and let it run. Raises what is wrong; nothing is stored then.

        Raises:
            OverloadedError: as much waits as may.
            TurnCancelledError: it was cancelled while it waited, here or in the line of its session.
            UnknownAgentError: it has a budget for an agent that there is not.
        """
        if self._daily_budget is not None:
            config = msgspec.structs.replace(message.config, app_daily_budget=self._daily_budget)
            message = msgspec.structs.replace(message, config=config)
        key = (message.key, message.invocation_id)
        with self._opening(key):
            slot = await self._admission.admit(message, key)
            has_begun = False
            try:
                if message.subscriber:
                    # The driver asks where it polls. Where that is wrong it gets UserElsewhereError, and asks again.
                    self._session.note_store(message.key.app, message.key.user, message.store)
                    started = await self._start_admitted(message, slot)
                else:
                    started = await self._start_anywhere(message, slot)
                has_begun = True
                return started
            finally:
                self._admission.leave(slot, has_begun=has_begun)

    @contextmanager
    def _opening(self, key: TurnKey) -> Iterator[None]:
        try:
            with self._table.opening(key):
                yield
        finally:
            if not self._table.is_opening(key):
                self._prepared.pop(key, None)

    async def _start_anywhere(self, message: p.StartTurn, slot: OpenSlot) -> p.TurnStarted:
        """Start a turn that no driver follows, in whichever store its user is."""
        while True:
            store = self._session.store_of(message.key.app, message.key.user)
            try:
                return await self._start_admitted(msgspec.structs.replace(message, store=store), slot)
            except UserElsewhereError as error:
                if error.store == store:
                    raise

    async def _start_admitted(self, message: p.StartTurn, slot: OpenSlot) -> p.TurnStarted:
        """Prepare the message, after those of its session that came before, and start its turn."""
        async with self._in_order.locked(message.key):
            # This takes longer for some messages than for others, and turns begin in the order of their messages.
            if not self._versions.has_tree:
                await self._versions.load()
            content = self._checked(message)
            if message.repeatable and saves(message, content) and not messages.answers(content):
                prepared = await self._prepared_once(message, content)
            else:
                prepared = await self._user_messages.prepare(message, content)
            if message.due is not None and not prepared.found.is_there:
                for hook in self.hooks:
                    await hook.before(message, message.due, self._user_messages.event_id(message, prepared.answers))
        if prepared.found.is_there:
            return await self._join(message, prepared.found)
        return await self._start(message, prepared, slot)

    async def _prepared_once(self, message: p.StartTurn, content: Content) -> PreparedMessage:
        """Prepare the message of a turn that may be asked for several times at once: its data is saved for all of them."""
        key = (message.key, message.invocation_id)
        if key not in self._prepared:
            self._prepared[key] = message.fingerprint, await self._user_messages.prepare(message, content)
        fingerprint, prepared = self._prepared[key]
        if message.fingerprint not in ("", fingerprint):
            raise RepeatMismatchError(message.invocation_id, message.key.session)
        return prepared

    def _checked(self, message: p.StartTurn) -> Content:
        """The content of a message that may begin a turn. Raises InvalidMessageError, UnknownAgentError."""
        topology = self._versions.current.routing.topology
        for name in message.config.agent_budgets or ():
            _ = topology[name]
        if message.config.agent and not (message.due is not None and message.due.is_message):
            self._versions.current.routing.checked_address(message.config.agent)
        return messages.checked(message.content, may_be_empty=topology.root.kind == GRAPH)

    async def cancel_turn(self, message: p.CancelTurn) -> p.Ack:
        """Stop a turn wherever it is; returns when it is closed. One that waits to be opened waits no more."""
        turn = (message.key, message.invocation_id)
        if self._table.get(turn) is None:
            # Requests for one that runs join it when they come in, and get its end.
            self._admission.cancel(turn)
        return await self._tasks.cancel_turn(message)

    async def _join(self, message: p.StartTurn, found: p.TurnFound) -> p.TurnStarted:
        """Join a turn whose message was prepared before."""
        key = (message.key, found.invocation_id or message.invocation_id)
        # Subscribe instead of opening: if the turn is rewound right now, opening would store the raw data again.
        status = await self._session.subscribe(
            p.Subscribe(subscriber=message.subscriber, key=key[0], invocation_id=key[1], after_seq=found.seq, store=message.store)
        )
        if status == "lost":
            await self._recovery.resume(key)
        return self._joined(key, found.agent, found.seq)

    async def _start(self, message: p.StartTurn, prepared: PreparedMessage, slot: OpenSlot) -> p.TurnStarted:
        """Open the turn and launch it, or join it if it is there already."""
        actions, answers = prepared.actions, prepared.answers
        # An answer goes to the turn that has made the call.
        invocation_id = prepared.found.invocation_id if answers else message.invocation_id
        key = (message.key, invocation_id)
        event_id = self._user_messages.event_id(message, answers)
        await self._tasks.flush_end(key)
        await self._table.resumed(key)
        running = self._table.get(key)
        if running is not None and running.is_opened_with(event_id):
            # The request is repeated, maybe by another program.
            found = p.TurnFound(authors=(), invocation_id=invocation_id, agent=running.agent, seq=running.message.stored.seq)
            return await self._join(message, found)
        if actions is not None and actions.state_delta:
            message = msgspec.structs.replace(message, state_delta={**message.state_delta, **actions.state_delta})
        event = user_event(message, prepared.content, event_id, invocation_id, actions)
        raw = encode_event(event)
        opening = Opening(message, prepared, event, raw, key, slot)
        if message.config.agent and message.due is not None and message.due.is_message:
            # One that was sent could wait for an agent to which no turn is addressed; others were checked when they came.
            self._versions.current.routing.checked_address(message.config.agent, works_alone=not message.due.is_sent)
        # `start_turn` has entered the id of the request itself. The block lasts until the turn is launched, so that a reply which
        # is out of date is known.
        if invocation_id == message.invocation_id:
            return await self._open_and_launch(opening)
        with self._table.opening(key):
            return await self._open_and_launch(opening)

    async def _open_and_launch(self, opening: Opening) -> p.TurnStarted:
        session = opening.key[0]
        try:
            opened = await self._open(self._request(opening), opening.slot)
        except StoreError:
            # It is not stored, unless the request was sent before.
            self._recovery.resume_later(opening.key)
            raise
        # Another turn than was asked for, where the message answers an agent that works on a task.
        key = (session, opened.invocation_id)
        match opened:
            case p.TurnBegun():
                version = self._versions.loaded.get(opened.version)
                if version is None:
                    ref = p.TurnRef(session, opened.invocation_id, opened.epoch, generation=opened.generation)
                    version = await self._tasks.version_of(ref, opened.version)
                turn = self._launch(opening, opened, version)
                # The agent first: the driver does not wait for this reply.
                await asyncio.sleep(0)
            case p.TurnResumed():
                turn = await self._recovery.run(key, opened)
            case p.TurnJoined():
                if opened.is_lost:
                    await self._recovery.resume(key)
                return self._joined(key, opened.agent, opened.seq)
            case p.MessageLeft():
                for hook in self.hooks:
                    await hook.left(opening.message, key)
                running = self._table.get(key)
                agent = running.agent if running is not None else ""
                return p.TurnStarted(invocation_id=key[1], agent=agent, seq=opened.after_seq, message=opening.event.id)
        return p.TurnStarted(invocation_id=opened.invocation_id, agent=turn.agent, seq=opened.seq)

    def _request(self, opening: Opening) -> p.OpenTurn:
        message, prepared = opening.message, opening.prepared
        return p.OpenTurn(
            key=message.key,
            invocation_id=opening.key[1],
            repeatable=message.repeatable,
            event=opening.raw,
            answers=prepared.answers,
            may_answer_task=self._user_messages.may_answer_task(message, prepared.answers),
            only_waiting=message.only_waiting,
            state_delta=message.state_delta,
            auto_create=message.auto_create,
            config=message.config,
            subscriber=message.subscriber,
            store=message.store,
            fingerprint=message.fingerprint,
            runner=self._place.runner_id,
            term=self._place.term,
            traceparent=message.traceparent,
            due=message.due,
        )

    async def _open(self, request: p.OpenTurn, slot: OpenSlot) -> p.TurnBegun | p.TurnResumed | p.TurnJoined | p.MessageLeft:
        """Ask until the turn is open: what is in the way, a turn or another Runner, is cleared away first.

        Args:
            slot: of the gate. The next turn gets it when this one is in line.
        """
        in_line: Callable[[], None] | None = slot.release
        while True:
            try:
                opened = await self._place.ask_as_leader(self._session.of(request.key), partial(self._ask, request, in_line))
            except ActorRestartsError:
                # The turn may be stored, and may have ended: it is joined then.
                request = msgspec.structs.replace(request, epoch=request.epoch + 1, repeatable=True)
                in_line = None
                continue
            match opened:
                case p.CancelRequired():
                    # Sent again, should the Session actor be lost, when it may have begun and ended.
                    request = msgspec.structs.replace(request, interrupting=opened.invocation_id, repeatable=True)
                case p.ResumeRequired():
                    await self._recovery.take_up((request.key, opened.invocation_id))
                case p.TurnBegun() | p.TurnResumed() | p.TurnJoined() | p.MessageLeft():
                    return opened

    async def _ask(self, request: p.OpenTurn, in_line: Callable[[], None] | None) -> p.OpenTurnReply:
        """Ask, and at the same time cancel the turn that is interrupted: then the new one is at the head when that has ended."""
        if not request.interrupting:
            return await self._session.open_turn(request, in_line)
        cancel = p.CancelTurn(key=request.key, invocation_id=request.interrupting)
        opened, cancelled = await asyncio.gather(
            self._session.open_turn(request), self._tasks.cancel_turn(cancel), return_exceptions=True
        )
        if isinstance(cancelled, BaseException):
            logger.error("turn %s could not be interrupted: %s", request.interrupting, cancelled)
        if isinstance(opened, BaseException):
            raise opened
        return cast(p.OpenTurnReply, opened)

    def _launch(self, opening: Opening, begun: p.TurnBegun, version: VersionParts) -> RunningTurn:
        message, config, progress = opening.message, opening.message.config, begun.progress
        if progress is not None:
            config = config.after(progress.config)
        event = decode_event(begun.event, begun.seq) if begun.event else opening.event
        turn = RunningTurn(
            p.TurnRef(message.key, begun.invocation_id, begun.epoch, generation=begun.generation),
            CONTROLLER if message.flow else version.routing.select(begun.authors, begun.caller, config.agent),
            OpeningMessage(event, p.StoredEvent(begun.seq, begun.event or opening.raw), config),
            progress,
            is_answer=progress is not None,
            state=begun.state,
            before=begun.before,
            traceparent=begun.traceparent,
            version=begun.version,
        )
        if progress is not None:
            turn.answerer = message.traceparent
            turn.callers = version.routing.waiting_callers(progress, config.agent)
            turn.waiting = version.routing.waiting_calls(progress)
        if opening.slot.retain():
            turn.release_slot = opening.slot.release
        self._tasks.launch(turn)
        return turn

    def _joined(self, key: TurnKey, agent: str, seq: int = 0) -> p.TurnStarted:
        running = self._table.get(key)
        return p.TurnStarted(invocation_id=key[1], agent=running.agent if running else agent, attached=True, seq=seq)
