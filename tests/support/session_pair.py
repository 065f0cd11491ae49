"""Two Session actors on one PostgreSQL server, each with a shard of the sessions, and turns in them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Mapping
from dataclasses import replace

from actors import Event, EventActions
from actors.actor import Actor
from actors.errors import ActorLostError
from actors.interfaces.stores import VersionedState
from actors.interfaces.transport import EarlyReply, Link
from actors.layers.placing.client import stores_client
from actors.layers.services import session_actor
from actors.messages import protocol as p
from actors.messages.codec import decode, encode
from actors.messages.session import SessionKey, Shard
from actors.refs import SessionRef
from actors.rules.sharding import all_shards
from actors.session.environment import SessionEnvironment
from runtime.engine.local import LocalLink
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.fixtures.session_fixture import TREE

SHARDS = 2

_numbers = itertools.count()


class CountingStore(SqlSessionStore):
    """Counts its looks at the states that sessions share.

    Attributes:
        held: set before a look returns what it has found, which waits for `let_go` then.
    """

    looks = 0
    held: threading.Event | None = None
    let_go: threading.Event | None = None

    def changed_states(self, app: str, known: Mapping[str, int]) -> Mapping[str, VersionedState]:
        self.looks += 1
        found = super().changed_states(app, known)
        if self.held is not None and self.let_go is not None:
            self.held.set()
            self.let_go.wait(30)
        return found


class PeerLink:
    """Implements `actors.interfaces.transport.Link` between the two.

    Attributes:
        is_cut: no message arrives any more.
        is_lost: messages are refused meanwhile.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.is_cut = False
        self.is_lost = False

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply; never, while it is cut. Raises ActorLostError."""
        if self.is_cut and self.is_lost:
            raise ActorLostError("a Session actor")
        if self.is_cut:
            await asyncio.Event().wait()
        return await self.link.send(raw, once=once, early=early)


class SessionPair:
    """Two Session actors, and the event loop that they run on.

    Args:
        are_told: each tells the other of changes of states that sessions share; else both ask the store for them.

    Attributes:
        session: a client of both.
        stores: theirs.
        peer_links: the ways of the one to the other, by the shard to which they lead.
    """

    def __init__(self, url: str, *, are_told: bool) -> None:
        self.loop = asyncio.Runner()
        self._writer = f"pair-{next(_numbers)}"
        self._url = url
        self._are_told = are_told
        self.stores = [CountingStore(url) for _ in range(SHARDS)]
        self._links = [LocalLink(self._actor(shard)) for shard in all_shards(SHARDS)]
        self.peer_links = [PeerLink(link) for link in self._links]
        self.session = stores_client([SessionRef(link) for link in self._links], 1)

    def writer(self, shard: int) -> str:
        """The name of an actor's place in the store."""
        return f"{self._writer}-{shard}"

    def succeed(self, shard: int) -> None:
        """Have another actor take the place of one, which was lost."""
        self.stores[shard] = CountingStore(self._url)
        link = LocalLink(self._actor(all_shards(SHARDS)[shard], is_successor=True))
        self._links[shard] = self.peer_links[shard].link = link
        self.session = stores_client([SessionRef(each) for each in self._links], 1)

    async def turn(self, key: SessionKey, changes: Mapping[str, int] | None = None) -> dict[str, int]:
        """Run a turn whose agent changes the state. Returns the state with which it has begun."""
        number = next(_numbers)
        message = Event(id=f"m-{number}", invocation_id=f"e-{number}", author="user")
        asked = p.OpenTurn(key=key, invocation_id=f"e-{number}", event=encode(message), runner="runner", auto_create=True)
        begun = await self.session.open_turn(asked)
        assert isinstance(begun, p.TurnBegun)
        ref = p.TurnRef(key, f"e-{number}", begun.epoch, 0, begun.generation)
        actions = EventActions(state_delta=dict(changes or {}))
        said = Event(id=f"a-{number}", invocation_id=f"e-{number}", author="root", actions=actions)
        await self.session.ask(p.Append(turn=ref, events=[encode(said)], outcome=p.Finished(agent="root")))
        return decode(begun.state, dict[str, int])

    async def settle(self, *keys: SessionKey) -> None:
        """Run turns until each begins without a look at the store."""
        while True:
            before = self.looks
            for key in keys:
                await self.turn(key)
            if self.looks == before:
                return

    @property
    def looks(self) -> int:
        """How often the store was asked for states that sessions share."""
        return sum(store.looks for store in self.stores)

    def close(self) -> None:
        self.loop.run(self.session.stop())
        self.loop.close()

    def _actor(self, shard: Shard, *, is_successor: bool = False) -> Actor:
        environment = SessionEnvironment(self.stores[shard.index], TREE, writer=self.writer(shard.index))
        if self._are_told:
            environment = replace(environment, peers=self._peers, is_successor=is_successor)
        return session_actor(environment, shard=shard)

    async def _peers(self) -> Mapping[int, SessionRef]:
        return {shard: SessionRef(link) for shard, link in enumerate(self.peer_links)}
