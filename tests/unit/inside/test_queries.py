"""What only asks: a few at a time, users in turn, and lists of turns with ends that the store does not know yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import OverloadedError
from actors.interfaces.stores import TurnFilter, TurnRow
from actors.layers.listing.messages import CountTurns, GetTurn
from actors.layers.spending.messages import ReserveSpending
from actors.messages import protocol as p
from actors.messages.config import Limits
from actors.messages.session import SessionKey
from actors.session.lanes import AT_ONCE, QueryLine
from actors.session.log.reader import with_ends
from tests.support.tries import tries


class Asked:
    """Requests through a line to a handler that waits until each may end."""

    def __init__(self, **limits: object) -> None:
        self.line = QueryLine(Limits(**{"max_waiting_requests": 4, **limits}))  # type: ignore[arg-type]
        self.begun: list[str] = []
        self.may_end = asyncio.Semaphore(0)
        self.handle = self.line.bounded(self._answer)

    async def _answer(self, message: GetTurn) -> p.Ack:
        self.begun.append(message.invocation_id)
        await self.may_end.acquire()
        return p.Ack()

    def ask(self, *turns: str) -> list[asyncio.Task[p.Message]]:
        """Ask for turns; each is named by its user and a number."""
        return [
            asyncio.ensure_future(self.handle(GetTurn(key=SessionKey("app", turn[0], "s"), invocation_id=turn))) for turn in turns
        ]

    async def fill(self) -> list[asyncio.Task[p.Message]]:
        """Have as many under way as may be, of a user of their own."""
        tasks = self.ask(*(f"z{number}" for number in range(AT_ONCE)))
        await settle()
        self.begun.clear()
        return tasks

    async def end(self, tasks: Sequence[asyncio.Task[p.Message]]) -> None:
        """Let all end, one after the other."""
        while not all(task.done() for task in tasks):
            self.may_end.release()
            await settle()


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_users_take_turns_by_their_weights_while_a_few_are_answered() -> None:
    asked = Asked(max_waiting_requests=9, user_weights={"b": 2})
    tasks = [*await asked.fill(), *asked.ask("a1", "a2", "b1", "b2", "b3")]
    await settle()
    assert (asked.begun, len(asked.line)) == ([], 5)
    await asked.end(tasks)
    assert asked.begun == ["a1", "b1", "b2", "a2", "b3"]
    assert len(asked.line) == 0


async def test_more_than_may_wait_are_refused_with_a_time_and_taken_when_there_is_room() -> None:
    asked = Asked()
    tasks = [*await asked.fill(), *asked.ask("a1", "a2", "a3", "b1")]
    await settle()
    (refused,) = asked.ask("c1")
    with pytest.raises(OverloadedError, match="has 4 requests waiting, and max_waiting_requests allows no more") as told:
        await refused
    assert told.value.retry_after_s == 1.0
    asked.may_end.release()
    await settle()
    tasks += asked.ask("c2")
    await asked.end(tasks)
    assert "c1" not in asked.begun
    assert asked.begun[-1] in ("a3", "c2")


@pytest.mark.parametrize("is_just_let_in", [False, True])
async def test_one_that_is_given_up_leaves_its_place(is_just_let_in: bool) -> None:
    asked = Asked()
    tasks = [*await asked.fill(), *asked.ask("a1", "a2")]
    await settle()
    given_up = tasks[-2]
    if is_just_let_in:
        asked.may_end.release()
        while len(asked.line) == 2:  # noqa: ASYNC110 - nothing tells of the step in between
            await asyncio.sleep(0)
        assert asked.begun == []
    given_up.cancel()
    await settle()
    await asked.end(tasks)
    assert given_up.cancelled()
    assert asked.begun == ["a2"]
    assert (asked.line._under_way, len(asked.line)) == (0, 0)


async def test_a_request_that_fails_makes_room() -> None:
    line = QueryLine(Limits(max_waiting_requests=1))

    async def fail(_: p.Message) -> p.Message:
        await asyncio.sleep(0)
        raise ValueError

    handle = line.bounded(fail)
    for _ in range(3):
        failed = await asyncio.gather(*(handle(CountTurns(app="app")) for _ in range(AT_ONCE + 1)), return_exceptions=True)
        assert {type(error) for error in failed} == {ValueError}


def test_nothing_that_a_turn_waits_for_is_a_query() -> None:
    of_turns: list[type[p.Request[Any]]] = [p.OpenTurn, p.Append, p.Fetch, p.Poll, p.CloseTurn, p.FindTurn, p.ReadTurn]
    of_turns += [p.Subscribe, ReserveSpending]
    assert p.Lane.QUERY not in {each.lane for each in of_turns}


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
