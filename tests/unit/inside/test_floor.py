"""Which agent has the floor: the store is told of each that takes it, and knows after any history who spoke last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.interfaces.stores import AddEvent, CreateSession, HideEvents
from actors.messages.event import USER
from actors.messages.session import SessionKey
from actors.rules.routing.branches import TOOL_MARK
from actors.rules.routing.selection import is_selectable
from actors.session.log.event_scan import EventScan
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedState
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.tries import tries

KEY = SessionKey("app", "ada", "s1")
TOOL = "as a tool"

speakers = st.tuples(st.sampled_from([USER, "a", "b", "c"]), st.just("")) | st.tuples(
    st.sampled_from(["a", "b"]), st.just(f"root.{TOOL_MARK}{TOOL}")
)
steps = st.lists(speakers | st.integers(0, 5) | st.just("load"), max_size=25)


def open_store() -> SqlSessionStore:
    """A store with one session."""
    store = SqlSessionStore("sqlite://")
    store.open()
    store.commit([CreateSession(KEY, 1.0)])
    return store


def loaded(store: SqlSessionStore) -> SessionLog:
    """The session as a Session actor loads it."""
    row = store.session(KEY)
    assert row is not None
    return SessionLog(row, SharedState(), SharedState())


def say(log: SessionLog, author: str, branch: str = "") -> AddEvent:
    """Add an event to a log. Returns what is to be written."""
    scan = EventScan(id=f"e{log.head_seq + 1}", invocation_id="i", author=author, timestamp=2.0, branch=branch or None)
    _, [write] = log.add(b"raw", scan)
    assert isinstance(write, AddEvent)
    return write


@settings(max_examples=tries(200), deadline=None)
@given(steps)
def test_the_store_knows_who_spoke_last_after_any_history(history: list[tuple[str, str] | int | str]) -> None:
    store = open_store()
    log = loaded(store)
    seen: dict[int, str] = {}
    for step in history:
        if isinstance(step, tuple):
            write = say(log, *step)
            seen[write.row.seq] = write.row.head.author
            store.commit([write])
        elif isinstance(step, int):
            kept = max(log.head_seq - step, 0)
            store.commit([HideEvents(KEY, kept + 1, log.head_seq)])
            # As a Session actor does after a rewind.
            log = loaded(store)
            seen = {seq: author for seq, author in seen.items() if seq <= kept}
        else:
            log = loaded(store)
        newest = reversed(list(seen.values()))
        agents = list(dict.fromkeys(author for author in newest if is_selectable(author)))
        assert list(loaded(store).authors()) == agents
    store.close()
