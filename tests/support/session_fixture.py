"""A Session actor as a plain class, over a real store that can be made to fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, Part
from actors.errors import StoreError, StoreUnavailableError
from actors.interfaces.records import AddEvent, SessionRow, Write
from actors.messages import protocol as p
from actors.messages.codec import decode, decode_event, encode
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import AgentNode, Topology
from actors.refs.session import SessionRef
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from runtime.engine.local import LocalLink
from runtime.stores.sql.sessions import SqlSessionStore

KEY = SessionKey("app", "ada", "s1")
OTHER = SessionKey("app", "ada", "s2")
TREE = Topology((AgentNode(name="root", children=("a",)), AgentNode(name="a", parent="root")))


class FailingStore(SqlSessionStore):
    """A store whose next commits fail, as many as `failures` says; those of `broken` fail always, all while `down`.

    It is not available while `away`. The connection breaks behind a commit as often as `breaks` says; with `leaves` the store
    is away from then on. Of its claims fail as many as `claims_refused` says.
    """

    failures = 0
    broken: SessionKey | None = None
    down = False
    away = False
    breaks = 0
    leaves = False
    commits = 0
    claims_refused = 0

    def commit(self, writes: Sequence[Write]) -> None:
        """Fail, or do it."""
        self._answer()
        if self.down or self.failures > 0 or any(write.key == self.broken for write in writes):
            self.failures -= 1
            raise StoreError("the disk is full")
        self.commits += 1
        super().commit(writes)
        if self.breaks > 0 or self.leaves:
            self.breaks -= 1
            self.away = self.leaves
            raise StoreUnavailableError(str(self), "the connection broke")

    def claim(self, writer: str) -> None:
        """Fail, or take the place."""
        if self.claims_refused > 0:
            self.claims_refused -= 1
            raise StoreUnavailableError(str(self), "it is locked")
        super().claim(writer)

    def _answer(self) -> None:
        if self.away:
            raise StoreUnavailableError(str(self), "nobody answers")

    def session(self, key: SessionKey) -> SessionRow | None:
        """Fail, or tell."""
        if self.down:
            raise StoreError("the store is down")
        self._answer()
        return super().session(key)

    def events(self, key: SessionKey, **options: Any) -> list[tuple[int, bytes]]:
        """Fail, or tell."""
        self._answer()
        return super().events(key, **options)

    def state(self, app: str, user: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fail, or tell."""
        self._answer()
        return super().state(app, user)


class HeldCommits:
    """Holds up the commits of a store that have events, until they are let go."""

    def __init__(self, store: FailingStore) -> None:
        self._commit = store.commit
        self._may_go_on = threading.Event()
        store.commit = self._held  # type: ignore[method-assign]

    def let_go(self) -> None:
        """Hold up none any more."""
        self._may_go_on.set()

    def _held(self, writes: Sequence[Write]) -> None:
        if any(isinstance(write, AddEvent) for write in writes):
            self._may_go_on.wait(20)
        self._commit(writes)


class Clock:
    """Seconds that go forward when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


class SessionFixture:
    """A Session actor with short ways to use it.

    Attributes:
        replaced: how often it was told that another one has its place in the store.
    """

    def __init__(
        self,
        folder: Path,
        store_timeout_s: float = 30.0,
        limits: Limits = DEFAULT_LIMITS,
        *,
        store: type[FailingStore] = FailingStore,
        shard: Shard = ONLY_SHARD,
        writer: str = "",
    ) -> None:
        self.folder = folder
        self.store = store(f"sqlite:///{folder}/sessions.db")
        self.clock = Clock()
        self.writer = writer
        self.replaced = 0
        environment = SessionEnvironment(
            self.store,
            TREE,
            store_timeout_s=store_timeout_s,
            limits=limits,
            clock=self.clock,
            writer=writer,
            on_replaced=self._count_replaced,
        )
        self.actor = SessionActor(environment, shard=shard)
        self.ref = SessionRef(LocalLink(self.actor))
        self._events = 0
        self._generations: dict[SessionKey, str] = {}

    async def restarted(self) -> SessionFixture:
        """Another actor over the same store; this one is stopped."""
        await self.ref.stop()
        return self.heir()

    def heir(self) -> SessionFixture:
        """Another actor over the same store; this one lives on. What both are to store next are the same events."""
        heir = SessionFixture(self.folder, writer=self.writer)
        heir._events = self._events
        heir._generations = dict(self._generations)
        return heir

    async def reading_heir(self) -> SessionFixture:
        """The heir, which has read the log."""
        heir = self.heir()
        await heir.state()
        return heir

    def _count_replaced(self) -> None:
        self.replaced += 1

    def event(self, author: str, text: str = "", *, turn: str = "e-1", **actions: Any) -> Event:
        """An event with an id of its own; `call` makes it a function call with that id."""
        self._events += 1
        call = actions.pop("call", None)
        parts = [Part(text=text)] if text else []
        parts += [Part(function_call=FunctionCall(id=call, name="f"))] if call else []
        content = Content(role="user" if author == "user" else "model", parts=parts) if parts else None
        made = EventActions(**actions)
        stamp = float(self._events)
        return Event(
            id=f"{turn}-{author}-{self._events}",
            invocation_id=turn,
            author=author,
            timestamp=stamp,
            content=content,
            actions=made,
        )

    async def open(self, turn: str = "e-1", text: str = "hi", key: SessionKey = KEY, **more: Any) -> p.TurnBegun:
        """Open a turn with a message of the user. It begins."""
        reply = await self.ask_to_open(turn, text, key, **more)
        assert isinstance(reply, p.TurnBegun)
        return reply

    async def ask_to_open(self, turn: str = "e-1", text: str = "hi", key: SessionKey = KEY, **more: Any) -> p.OpenTurnReply:
        """Ask to open a turn with a message of the user."""
        delta = more.get("state_delta", {})
        stored = {name: value for name, value in delta.items() if not name.startswith("temp:")}
        raw = encode(self.event("user", text, turn=turn, state_delta=stored))
        more = {"runner": "runner", **more}
        reply = await self.ref.open_turn(p.OpenTurn(key=key, invocation_id=turn, event=raw, auto_create=True, **more))
        if isinstance(reply, p.TurnBegun):
            self._generations[key] = reply.generation
        return reply

    async def answer(self, turn: str, *call_ids: str, **more: Any) -> p.OpenTurnReply:
        """Ask to continue a turn with the user's answers to calls."""
        parts = [Part(function_response=FunctionResponse(id=call_id, name="f", response={})) for call_id in call_ids]
        event = msgspec.structs.replace(self.event("user", turn=turn), content=Content(role="user", parts=parts))
        more = {"runner": "runner", **more}
        return await self.ref.open_turn(p.OpenTurn(key=KEY, invocation_id=turn, event=encode(event), answers=call_ids, **more))

    def turn_ref(self, turn: str = "e-1", epoch: int = 1, key: SessionKey = KEY, run: int = 0) -> p.TurnRef:
        """The fencing token of a turn; its session's last turn began in the same generation of the log."""
        return p.TurnRef(key, turn, epoch, run, self._generations.get(key, ""))

    async def say(self, *events: Event, turn: str = "e-1", epoch: int = 1, key: SessionKey = KEY, **more: Any) -> int:
        """Append events to a turn."""
        ref = self.turn_ref(turn, epoch, key)
        append = p.Append(turn=ref, events=[encode(event) for event in events], **more)
        return (await self.ref.append(append)).first_seq

    async def close(self, turn: str = "e-1", outcome: p.AnyOutcome | None = None, epoch: int = 1, key: SessionKey = KEY) -> None:
        """Close a turn."""
        ref = self.turn_ref(turn, epoch, key)
        await self.ref.close_turn(p.CloseTurn(turn=ref, agent="root", outcome=outcome or p.Finished(agent="root")))

    async def turn(self, turn: str, *said: str, key: SessionKey = KEY, state: dict[str, Any] | None = None) -> None:
        """A whole turn: a message, what the root says, and its end; `state` rides on the first answer."""
        await self.open(turn, f"{turn}?", key)
        for text in said:
            await self.say(self.event("root", text, turn=turn, state_delta=state or {}), turn=turn, key=key)
            state = None
        await self.close(turn, key=key)

    async def log(self, key: SessionKey = KEY, **options: Any) -> list[tuple[int, str, str]]:
        """Position, author and text of every visible event."""
        found = (await self.ref.get_session(p.GetSessionRequest(key=key, **options))).session
        assert found is not None
        events = [decode_event(stored.raw, stored.seq) for stored in found.events]
        return [(event.seq, event.author, event.text) for event in events]

    async def state(self, key: SessionKey = KEY) -> dict[str, Any]:
        """The session's state, all scopes."""
        return decode((await self.ref.fetch(p.Fetch(key=key, state_only=True))).state, dict)

    async def news(self, subscriber: str, ack: int = 0) -> tuple[int, list[tuple[int, str]], list[str]]:
        """Number of the news, the events as (position, text), and the kinds of the outcomes."""
        news = await self.ref.poll(p.Poll(subscriber=subscriber, ack=ack))
        assert news.known
        told = [decode_event(stored.raw, stored.seq) for turn in news.turns for stored in turn.events]
        ends = [type(turn.outcome).__name__ for turn in news.turns if turn.outcome is not None]
        return news.number, [(event.seq, event.text) for event in told], ends

    async def counts(self) -> dict[str, int]:
        """The actor's figures."""
        return dict((await self.ref.statistics()).counts)

    def positions(self, key: SessionKey = KEY) -> list[int]:
        """The positions in the log as the store has them, rewound ones left out."""
        return [seq for seq, _ in self.store.events(key)]


def state_of(opened: p.TurnBegun) -> dict[str, Any]:
    """The state that came with an opened turn."""
    return decode(opened.state, dict)


async def settled() -> None:
    """Let everything that can go on without us go on."""
    for _ in range(50):
        await asyncio.sleep(0)
