"""How a turn starts: it is let in, its message is prepared, the Session actor opens it, and it is launched, or joined."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import msgspec

from actors.actor import KeyedLocks
from actors.errors import ActorRestartsError, StoreError, UserElsewhereError
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode_event
from actors.messages.config import Budget
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.flow import CONTROLLER
from actors.messages.session import SessionKey, TurnKey
from actors.messages.topology import GRAPH
from actors.refs import SessionRef
from actors.rules.checks import user_message as messages
from actors.runner.dispatch.versions import TurnVersions, VersionParts
from actors.runner.running.running_turn import Continued, OpeningMessage, RunningTurn
from actors.runner.turns.admission import OpenSlot, TurnAdmission
from actors.runner.turns.place import RunnerPlace
from actors.runner.turns.recovery import TurnResumer
from actors.runner.turns.table import TurnTable
from actors.runner.turns.tasks import TurnTasks
from actors.runner.turns.user_message import PreparedMessage, UserMessages, saves, user_event

logger = logging.getLogger(__name__)


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

    async def before(self, message: p.StartTurn, event_id: str) -> None:
        """Called before the turn is opened, for one message of a session after the other."""
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
        with self._table.opening(key):
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
            if not prepared.found.is_there:
                for hook in self.hooks:
                    await hook.before(message, self._user_messages.event_id(message, prepared.answers))
        if prepared.found.is_there:
            return await self._join(message, prepared.found)
        return await self._start(message, prepared, slot)

    async def _prepared_once(self, message: p.StartTurn, content: Content) -> PreparedMessage:
        """Prepare the message of a turn that may be asked for several times at once: its data is saved for all of them."""
        key = (message.key, message.invocation_id)
        prepared = self._table.prepared(key, message.fingerprint)
        if prepared is None:
            prepared = await self._user_messages.prepare(message, content)
            self._table.note_prepared(key, message.fingerprint, prepared)
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
                version = self._versions.find(opened.version)
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
            Continued(progress) if progress is not None else None,
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
