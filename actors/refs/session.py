"""The client of the Session actor."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from actors.messages import protocol as p
from actors.messages.protocol.request import replies_to
from actors.messages.session import SessionKey, Shard
from actors.messages.topology import Topology
from actors.refs.base import Ref


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

    async def topology(self) -> Topology:
        """The parent map."""
        found = await self.ask(p.GetTopology())
        # No version is called "".
        assert found.topology is not None
        return found.topology

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

    async def open_store(self) -> None:
        """Open the session store. Raises StoreError when it cannot be used."""
        await self.ask(p.OpenStore())
