"""Lists of turns, with ends that the store does not know yet."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.interfaces.stores import TurnFilter, TurnRow
from actors.messages.session import SessionKey
from actors.session.log.reader import with_ends
from tests.support.tries import tries

KEYS = [SessionKey("app", "ada", name) for name in ("s1", "s2")]

ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 4), st.sampled_from(["running", "running", "paused", "finished"])), max_size=8
)


@settings(max_examples=tries(200))
@given(
    ROWS,
    st.sets(st.integers(0, 7)),
    st.sampled_from(["paused", "finished"]),
    st.sampled_from(["", "running", "paused", "finished"]),
    st.integers(1, 5),
    st.none() | st.tuples(st.integers(0, 4).map(float), st.just("e-3")),
)
def test_a_list_of_turns_is_what_it_is_when_their_ends_are_stored(
    made: list[tuple[SessionKey, int, str]],
    ended: set[int],
    how: str,
    status: str,
    limit: int,
    before: tuple[float, str] | None,
) -> None:
    rows = [
        (key, TurnRow(invocation_id=f"e-{n}", status=state, epoch=1, first_seq=1, opened_seq=1, begun_s=float(begun_s)))
        for n, (key, begun_s, state) in enumerate(made)
    ]
    owed = [
        (key, msgspec.structs.replace(row, status=how))
        for n, (key, row) in enumerate(rows)
        if n in ended and row.status == "running"
    ]
    ends = {row.invocation_id: (key, row) for key, row in owed}
    wanted = TurnFilter(app="app", status=status, limit=limit, before=before)
    of_store = listed(rows, msgspec.structs.replace(wanted, limit=limit + len(owed)))
    assert with_ends(of_store, owed, wanted) == listed([ends.get(row.invocation_id, (key, row)) for key, row in rows], wanted)


def listed(rows: list[tuple[SessionKey, TurnRow]], wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
    """What a store lists."""
    found = [
        (key, row)
        for key, row in rows
        if wanted.status in ("", row.status) and (wanted.before is None or (row.begun_s, row.invocation_id) < wanted.before)
    ]
    return sorted(found, key=lambda each: (each[1].begun_s, each[1].invocation_id), reverse=True)[: wanted.limit]
