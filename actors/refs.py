"""Clients of actors: the only way from one actor to another."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from actors.errors import ActorRestartsError, RaygroveError
from actors.errors.tracebacks import rebuild
from actors.interfaces.transport import EarlyReply, Link
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.messages.protocol.base import Message, Request, Stop, decoder, error_in, replies_to
from actors.messages.protocol.statistics import GetStatistics, Statistics
from actors.messages.session import SessionKey, Shard
from actors.rules.checks.values import too_large_request

M = TypeVar("M", bound=Message)


class Ref:
    """A client of an actor. Each request raises the error that the actor replied.

    Args:
        max_bytes: how large a message may be; None: any size. Only drivers need a limit: what actors send was measured before.
    """

    def __init__(self, link: Link, max_bytes: int | None = None) -> None:
        self._link = link
        self._max_bytes = max_bytes

    async def ask(self, request: Request[M]) -> M:
        """Send a request and return the reply.

        Raises:
            TooLargeError: the request has more than `max_bytes`.
            ActorLostError: see Link.send.
            RaygroveError: the error that the actor replied, or a reply of another class.
        """
        kind = type(request)
        if not kind.is_sent_once:
            return await self._ask(request, replies_to(kind))
        try:
            return await self._ask(request, replies_to(kind), once=True)
        except ActorRestartsError:
            # It may have been done before the actor was lost.
            return await self._ask(msgspec.structs.replace(request, again=True), replies_to(kind))

    async def statistics(self) -> Statistics:
        """The figures of the actor."""
        return await self.ask(GetStatistics())

    async def stop(self) -> None:
        """Have the actor end its work: see its handler of Stop."""
        await self.ask(Stop())

    async def _ask(
        self, request: Request[Any], replies: tuple[type[M], ...], *, once: bool = False, early: EarlyReply | None = None
    ) -> M:
        """The same with less than the request says of itself, or more.

        Args:
            replies: the classes that the reply may have.
            once: see Link.send.
            early: takes replies that come before the last one, encoded: see Link.send.

        Raises:
            ActorRestartsError: see Link.send.
        """
        raw = encode(request)
        if self._max_bytes is not None and len(raw) > self._max_bytes:
            raise too_large_request(len(raw), self._max_bytes)
        reply = await self._link.send(raw, once=once, early=early)
        error = error_in(reply)
        if error is not None:
            raise rebuild(error.error, error.args, error.traceback)
        try:
            return decoder(replies).decode(reply)  # type: ignore[no-any-return]
        except msgspec.DecodeError as unread:
            raise RaygroveError(f"asked with {type(request).__name__}, got another reply back: {unread}") from None


class AgentRef(Ref):
    """A client of an agent's actor."""

    def invoke(self, message: p.Invoke, begun: Callable[[], None] | None = None) -> Coroutine[Any, Any, p.AnyOutcome]:
        """Run the agent and return how the run ended.

        Args:
            begun: called when the run is under way, if the message asks for that. Links of Ray's do not tell.
        """
        early: EarlyReply | None = None if begun is None else lambda _: begun()
        return self._ask(message, replies_to(p.Invoke), early=early)


class RunnerRef(Ref):
    """A client of the Runner actor."""

    @property
    def count(self) -> int:
        """The number of Runners: 1, unless it is a `ShardedRunnerRef`."""
        return 1

    def number_of(self, key: SessionKey) -> int:
        """The number of the Runner that serves a session, from 0."""
        return 0

    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Start a turn; returns when it is open. Raises what is wrong with the message; nothing is stored then."""
        sent_s = now_s()
        try:
            return await self._ask(message, (p.TurnStarted,), once=True)
        except ActorRestartsError:
            # The Runner may have opened the turn before it was lost: if the turn is there, it is joined.
            return await self.ask(msgspec.structs.replace(message, repeatable=True, sent_s=sent_s))

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop every agent, and cancel the turns that run, or leave them open in the log."""
        await self.ask(p.Stop(leave_turns=leave_turns))


class SessionRef(Ref):
    """A client of the Session actor. Most requests need no more than `ask`; the others have methods."""

    @property
    def shards(self) -> Sequence[SessionRef]:
        """A client of each Session actor of the deployment; this one alone, unless it is a `ShardedSessionRef`."""
        return (self,)

    def sharing(self, shard: Shard) -> Sequence[SessionRef]:
        """A client of each Session actor that serves any session of a Runner's shard."""
        return (self,)

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the Session actor that serves a session."""
        return self

    @property
    def stores(self) -> Sequence[SessionRef]:
        """A client of the Session actors of each store; this one alone, unless it is a `StoresSessionRef`."""
        return (self,)

    def store_of(self, app: str, user: str) -> int:
        """The number of the store in which a user is, from 0, as far as this process knows."""
        return 0

    def note_store(self, app: str, user: str, store: int) -> None:
        """Go by what an answer has said: that a user is in a store."""

    def open_turn(self, message: p.OpenTurn, in_line: Callable[[], None] | None = None) -> Coroutine[Any, Any, p.OpenTurnReply]:
        """Begin a turn, as soon as no other turn of the session runs.

        Args:
            in_line: called when the turn waits for those before it. The message is not sent again then.

        Raises:
            ActorRestartsError: the Session actor is being restarted, and may have begun the turn; only with `in_line`.
            SessionNotFoundError, SessionBusyError, UnknownFunctionCallError, RequestError: the turn cannot begin.
            TurnCancelledError: it was cancelled while it waited in the queue.
            StoreError: it could not be stored.
        """
        early = None if in_line is None else lambda _: in_line()
        return self._ask(message, replies_to(p.OpenTurn), once=in_line is not None, early=early)

    async def subscribe(self, message: p.Subscribe) -> p.TurnStatus:
        """Follow a turn, and return where it is. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        return (await self.ask(message)).status

    async def append_event(self, message: p.AppendEventRequest) -> int:
        """Append an event outside of turns and return its position. Raises SessionNotFoundError, SessionBusyError, StoreError."""
        return (await self.ask(message)).first_seq
