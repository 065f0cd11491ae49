"""Writes for tests: short words for single ones, and a hypothesis strategy for any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actors.interfaces.stores import (
    AddEvent,
    CreateSession,
    EventHead,
    EventRow,
    HideEvents,
    PutState,
    PutTurn,
    RemoveSession,
    TurnRow,
    Write,
)
from actors.layers.stores.parts import SessionStore
from actors.layers.stores.records import ArchiveEvents, ForgetRemoval, NoteRemoval, OldSession
from actors.messages.session import SessionKey

APP = "shop"
S1 = SessionKey(APP, "ada", "s1")
S2 = SessionKey(APP, "ada", "s2")
OTHER = SessionKey(APP, "bob", "s1")

INVOCATIONS = ("e-1", "e-2")
CALLS = ("c-1", "c-2")


def event(
    key: SessionKey,
    seq: int,
    author: str = "user",
    *,
    id: str = "",
    raw: bytes = b"",
    calls: tuple[str, ...] = (),
    undo: bytes = b"",
    invocation_id: str = "e-1",
) -> AddEvent:
    """An event; its timestamp in seconds is `seq`, and so are its bytes and id unless given."""
    head = EventHead(id=id or f"id-{seq}", invocation_id=invocation_id, author=author, timestamp=float(seq))
    return AddEvent(key, EventRow(seq=seq, head=head, raw=raw or b"raw-%d" % seq, calls=calls, undo=undo))


def turn(
    key: SessionKey,
    invocation_id: str = "e-1",
    status: str = "running",
    *,
    first_seq: int = 1,
    at_s: float = 0,
    begun_s: float = 0,
    last_seq: int = 0,
    epoch: int = 1,
) -> PutTurn:
    row = TurnRow(
        invocation_id=invocation_id,
        status=status,
        epoch=epoch,
        first_seq=first_seq,
        opened_seq=first_seq,
        agent="root",
        begun_s=begun_s,
        last_seq=last_seq,
    )
    return PutTurn(key, row, at_s)


def fill_sessions(store: SessionStore, *keys: SessionKey, length: int = 0) -> None:
    """Create sessions with a log of that length, written by the authors user, a, user, b, user, a, …"""
    authors = ("user", "a", "user", "b")
    store.commit([CreateSession(key, 1.0) for key in keys])
    store.commit([event(key, seq, authors[(seq - 1) % 4]) for key in keys for seq in range(1, length + 1)])


def seqs(found: list[tuple[int, bytes]]) -> list[int]:
    return [seq for seq, _ in found]


def any_write(app: str) -> st.SearchStrategy[Write]:
    """Writes to four sessions of an app that often fit each other and often do not."""
    keys = st.sampled_from([SessionKey(app, user, session) for user in ("ada", "bob") for session in ("s1", "s2")])
    scopes = st.one_of(keys, st.sampled_from([SessionKey(app, "ada", ""), SessionKey(app, "", "")]))
    seqs = st.integers(1, 8)
    names = st.sampled_from(["k", "l", "", "ключ"])
    data: st.SearchStrategy[Any] = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.binary(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    events = st.builds(
        event,
        keys,
        st.integers(1, 30),
        st.sampled_from(["user", "a", "b", "ä"]),
        id=st.sampled_from(["", "", "", "", "id-x", "id-y"]),
        raw=st.binary(max_size=4),
        calls=st.sampled_from([(), ("c-1",), ("c-1", "c-2"), ("c-2", "c-2")]),
        undo=st.sampled_from([b"", b"before"]),
        invocation_id=st.sampled_from(INVOCATIONS),
    )
    statuses = st.sampled_from(["running", "paused", "finished"])
    turns = st.builds(turn, keys, st.sampled_from(INVOCATIONS), statuses, first_seq=seqs, at_s=st.floats(0, 9))
    states = st.builds(
        PutState,
        scopes,
        st.dictionaries(names, data, max_size=2),
        st.lists(names, max_size=1).map(lambda removed: tuple(removed)),
    )
    hidden = st.builds(HideEvents, keys, seqs, seqs)
    created = st.builds(CreateSession, keys, st.floats(0, 9))
    removed = st.builds(RemoveSession, keys)
    noted = st.builds(lambda key, events: NoteRemoval(key, OldSession(key, 1.5, events, 1)), keys, seqs)
    forgotten = st.builds(ForgetRemoval, keys)
    archived = st.builds(ArchiveEvents, keys, st.integers(0, 31))
    return st.one_of(
        created,
        events,
        events,
        events,
        events,
        turns,
        turns,
        states,
        hidden,
        archived,
        st.one_of(removed, removed, noted, forgotten),
    )
