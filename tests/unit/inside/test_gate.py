"""The gate of a Runner: a few turns are opened at a time, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.session import SessionKey
from actors.rules.queues import OF_SESSION_ACTOR, least_opened, opened_at_once
from actors.runner.admission import OpenSlot, TurnGate
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.session_fixture import settled
from tests.support.tries import tries


@pytest.fixture(autouse=True, scope="module")
def hold() -> Iterator[None]:
    """No turn is let in because another one has had its time: on a busy machine each step may take that long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.runner.admission.HOLD_S", 1000.0)
        yield


def key(user: str, session: str = "s") -> SessionKey:
    return SessionKey("app", user, session)


class Arrivals:
    """Turns that have come to a gate, and the slots of those that are inside, in their order."""

    def __init__(self, gate: TurnGate) -> None:
        self._gate = gate
        self.inside: list[str] = []
        self.slots: dict[str, OpenSlot] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        """Turns come, each under the letter of its user and a number."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._enter(name))
            await settled()

    async def _enter(self, name: str) -> None:
        turn = (key(name[0], name[0]), f"e-{name}")
        self.slots[name] = await self._gate.enter(turn)
        self.inside.append(name)

    async def leave(self, name: str) -> None:
        self.slots[name].release()
        await settled()


async def test_a_place_that_is_left_twice_lets_one_in() -> None:
    turns = Arrivals(TurnGate(1))
    await turns.come("a1", "a2", "a3")
    await turns.leave("a1")
    await turns.leave("a1")
    assert turns.inside == ["a1", "a2"]


async def test_a_turn_that_is_given_up_leaves_the_line_and_the_place_that_it_was_just_given() -> None:
    turns = Arrivals(gate := TurnGate(1))
    await turns.come("a1", "a2", "b1", "c1")
    turns.tasks["a2"].cancel()
    await settled()
    assert len(gate) == 2
    # It is let in, and is cancelled before it knows.
    turns.slots["a1"].release()
    turns.tasks["b1"].cancel()
    await settled()
    assert turns.inside == ["a1", "c1"]


async def test_those_of_one_session_come_in_in_their_order_whoever_knows_first_that_there_is_room() -> None:
    turns = Arrivals(gate := TurnGate(1))
    await turns.come("a1", "a2")
    # a3 is about to ask when a2 is let in, which knows of it later.
    turns.tasks["a3"] = asyncio.create_task(turns._enter("a3"))
    gate._at_once = 9
    turns.slots["a1"].release()
    await settled()
    assert turns.inside == ["a1", "a2", "a3"]


async def test_what_takes_long_inside_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.runner.admission.HOLD_S", 0.05)
    turns = Arrivals(gate := TurnGate(2))
    await turns.come("a1", "a2", "a3", "b1", "b2")
    assert len(gate) == 3
    await until(lambda: len(turns.inside) == 5)
    assert turns.inside == ["a1", "a2", "a3", "b1", "b2"]
    # Who has left already leaves no second slot.
    for name in list(turns.slots):
        await turns.leave(name)
    await turns.come("c1", "c2", "c3")
    assert (turns.inside[-2:], len(gate)) == (["c1", "c2"], 1)


@given(
    least=st.integers(1, 3),
    most=st.integers(0, 5),
    steps=st.lists(st.tuples(st.sampled_from(["come", "come", "leave", "cancel"]), st.integers(0, 5)), max_size=40),
)
@settings(deadline=None, max_examples=tries(40))
def test_there_are_never_more_inside_than_may_be_nor_fewer_while_some_wait(
    least: int, most: int, steps: list[tuple[str, int]]
) -> None:
    async def play() -> None:
        turns = Arrivals(gate := TurnGate(least, of_many=most))
        inside, waiting = list[str](), dict[str, str]()
        for number, (what, chosen) in enumerate(steps):
            before = len(inside)
            if what == "come":
                name = f"{'abcdef'[chosen]}{number}"
                waiting[name] = name[0]
                await turns.come(name)
            elif what == "leave" and inside:
                await turns.leave(inside.pop(chosen % len(inside)))
            elif what == "cancel" and waiting:
                name = list(waiting)[chosen % len(waiting)]
                del waiting[name]
                turns.tasks[name].cancel()
                await settled()
            came = [name for name in waiting if name in turns.inside]
            inside += came
            for name in came:
                del waiting[name]
            users = len(set(waiting.values()))
            assert len(gate) == len(waiting)
            if came:
                # The last of them was let in while its user, too, was waiting.
                assert len(inside) <= max(least, min(users + 1, most))
            else:
                assert len(inside) <= before
            if waiting:
                assert len(inside) >= opened_at_once(users, least, most)
        while inside:
            await turns.leave(inside.pop())
            came = [name for name in waiting if name in turns.inside]
            inside += came
            for name in came:
                del waiting[name]
        assert not waiting

    asyncio.run(play())


@pytest.mark.parametrize(("session_actors", "runners", "times"), [(1, 1, 1), (1, 4, 1), (2, 1, 2), (4, 2, 2), (5, 2, 3)])
def test_each_session_actor_has_as_many_turns_of_one_user_to_store_together(
    session_actors: int, runners: int, times: int
) -> None:
    assert least_opened(session_actors, runners) == times * OF_SESSION_ACTOR
