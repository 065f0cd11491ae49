"""Turns come to be opened a few at a time, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.errors import SessionNotFoundError, StoreError, TurnCancelledError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.rules.capacity.opening_window import OF_SESSION_ACTOR, least_opened, opened_at_once
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.runner.turns.gate import GatePlace, TurnGate
from actors.testing import PatternModel
from runtime.engine.local_agents import LocalLink
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.separate_actors import Ways
from tests.support.fixtures.session_fixture import settled
from tests.support.tries import tries

Build = Callable[..., RunnerFixture]


@pytest.fixture(autouse=True, scope="module")
def hold() -> Iterator[None]:
    """No turn is let in because another one has had its time: on a busy machine each step may take that long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.runner.turns.gate.HOLD_S", 1000.0)
        yield


def key(user: str, session: str = "s") -> SessionKey:
    return SessionKey("app", user, session)


class Arrivals:
    """Turns that have come to a gate, and the places of those that are inside, in their order."""

    def __init__(self, gate: TurnGate) -> None:
        self._gate = gate
        self.inside: list[str] = []
        self.places: dict[str, GatePlace] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        """Turns come, each under the letter of its user and a number."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._enter(name))
            await settled()

    async def _enter(self, name: str) -> None:
        turn = (key(name[0], name[0]), f"e-{name}")
        now_s = asyncio.get_running_loop().time()
        self.places[name] = self._gate.enter_at_once(turn, now_s) or await self._gate.wait(turn)
        self.inside.append(name)

    async def leave(self, name: str) -> None:
        self.places[name].leave()
        await settled()


async def test_those_who_have_few_do_not_wait_behind_those_who_have_many() -> None:
    turns = Arrivals(gate := TurnGate(1))
    await turns.come("a1", "a2", "a3", "b1", "c1", "b2")
    assert (turns.inside, len(gate)) == (["a1"], 5)
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        await turns.leave(name)
    assert turns.inside == ["a1", "a2", "b1", "c1", "a3", "b2"]
    assert len(gate) == 0


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
    turns.places["a1"].leave()
    turns.tasks["b1"].cancel()
    await settled()
    assert turns.inside == ["a1", "c1"]


async def test_those_of_one_session_come_in_in_their_order_whoever_knows_first_that_there_is_room() -> None:
    turns = Arrivals(gate := TurnGate(1))
    await turns.come("a1", "a2")
    # a3 is about to ask when a2 is let in, which knows of it later.
    turns.tasks["a3"] = asyncio.create_task(turns._enter("a3"))
    gate._at_once = 9
    turns.places["a1"].leave()
    await settled()
    assert turns.inside == ["a1", "a2", "a3"]


async def test_a_turn_that_is_cancelled_waits_no_more_and_another_one_takes_no_notice() -> None:
    turns = Arrivals(gate := TurnGate(1))
    await turns.come("a1", "a2", "b1")
    gate.cancel((key("a", "a"), "e-a2"))
    gate.cancel((key("a", "a"), "e-a1"))
    with pytest.raises(TurnCancelledError, match="e-a2"):
        await turns.tasks["a2"]
    await turns.leave("a1")
    assert turns.inside == ["a1", "b1"]


async def test_what_takes_long_inside_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.runner.turns.gate.HOLD_S", 0.05)
    turns = Arrivals(gate := TurnGate(2))
    await turns.come("a1", "a2", "a3", "b1", "b2")
    assert len(gate) == 3
    await until(lambda: len(turns.inside) == 5)
    assert turns.inside == ["a1", "a2", "a3", "b1", "b2"]
    # Who has left already leaves no second place behind.
    for name in list(turns.places):
        await turns.leave(name)
    await turns.come("c1", "c2", "c3")
    assert (turns.inside[-2:], len(gate)) == (["c1", "c2"], 1)


class WaitingModel:
    """Answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await self.may_answer.wait()
        yield LlmResponse(content=Content.of_text("ok", role="model"))


class SlowSession(SessionRef):
    """A client of a Session actor that opens a turn when it may. Keeps the users, in the order in which turns came to it."""

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.users: list[str] = []
        self.may_open = asyncio.Semaphore(0)

    async def open_turn(
        self, message: p.OpenTurn, early: Callable[[p.EarlyOpenTurnReply], None] | None = None
    ) -> p.OpenTurnReply:
        self.users.append(message.key.user)
        await self.may_open.acquire()
        return await super().open_turn(message, early)


def start(runner: RunnerRef, user: str, number: int, session: str = "") -> asyncio.Task[p.TurnStarted]:
    message = p.StartTurn(
        key=key(user, session or f"s{number}"), invocation_id=f"e-{user}{number}", content=Content.of_text("hi"), auto_create=True
    )
    return asyncio.create_task(runner.start_turn(message))


def runner_of(fixture: RunnerFixture, session: SessionRef) -> RunnerRef:
    """A Runner that opens one turn at a time."""
    environment = RunnerEnvironment(
        session, fixture.directory, fixture.artifacts, turns_opened_at_once=1, turns_of_many_opened_at_once=1
    )
    runner = RunnerRef(LocalLink(RunnerActor(environment)))
    fixture.directory.environment = replace(fixture.directory.environment, runner=runner)
    return runner


async def test_a_runner_opens_the_turn_of_another_user_before_those_that_one_has_asked_for(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    tasks = [start(runner, "ada", number) for number in range(9)]
    await settled()
    tasks.append(start(runner, "bob", 0))
    await settled()
    assert (await runner.statistics()).counts["waiting"] == 10
    for _ in tasks:
        session.may_open.release()
        await settled()
    await asyncio.gather(*tasks)
    assert session.users == ["ada", "ada", "bob", *["ada"] * 7]
    assert (await runner.statistics()).counts["waiting"] == 0
    await runner.stop()


async def test_a_cancel_finds_a_turn_that_waits_to_be_opened(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    first, second = (start(runner, "ada", number) for number in range(2))
    await settled()
    await runner.cancel_turn(p.CancelTurn(key=key("ada", "s1"), invocation_id="e-ada1"))
    with pytest.raises(TurnCancelledError):
        await second
    session.may_open.release()
    await first
    assert session.users == ["ada"]
    assert await runner.statistics()
    await runner.stop()


async def test_the_waiting_turns_of_a_user_are_cancelled_and_those_of_others_go_on(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    first, *others = [start(runner, "ada", number) for number in range(4)]
    bobs = start(runner, "bob", 0)
    await settled()
    await runner.cancel_waiting_turns(p.CancelWaitingTurns(app="app", user="ada"))
    assert [type(each) for each in await asyncio.gather(*others, return_exceptions=True)] == [TurnCancelledError] * 3
    for _ in range(2):
        session.may_open.release()
    await asyncio.gather(first, bobs)
    assert session.users == ["ada", "bob"]
    await runner.stop()


async def test_turns_that_wait_for_others_of_their_session_let_the_next_one_in(build: Build) -> None:
    model = WaitingModel()
    fixture = build(LlmAgent(name="root", model=model))
    runner = runner_of(fixture, fixture.session)
    await start(runner, "ada", 0, "s")
    line = [start(runner, "ada", number, "s") for number in range(1, 9)]
    # The first of those in line would keep the only place, if the Session actor did not say so.
    async with asyncio.timeout(30):
        await start(runner, "bob", 0)
    assert [each.done() for each in line] == [False] * 8
    model.may_answer.set()
    await asyncio.gather(*line)
    await runner.stop()


async def test_a_turn_whose_agent_has_not_begun_stays_inside_while_others_wait() -> None:
    turns = Arrivals(TurnGate(1))
    await turns.come("a1", "b1")
    assert turns.places["a1"].keep()
    assert turns.inside == ["a1"]
    await turns.leave("a1")
    assert turns.inside == ["a1", "b1"]
    # Nobody waits for this one.
    assert not turns.places["b1"].keep()


async def test_the_next_turn_is_opened_when_the_agent_of_the_one_before_has_begun(tmp_path: Path) -> None:
    ways, model = Ways(), WaitingModel()
    fixture = RunnerFixture(LlmAgent(name="root", model=model), tmp_path, ways=ways)
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    gate = ways.hold("root", p.Invoke)
    tasks = [start(runner, "ada", number) for number in range(3)]
    for _ in tasks:
        session.may_open.release()
    await gate.reached.wait()
    await settled()
    # The message to the agent is on its way, and the next turn would stand behind it there.
    assert session.users == ["ada"]
    gate.open()
    # The model has answered none of them.
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    model.may_answer.set()
    await runner.stop()
    await fixture.close()


async def test_a_turn_that_ends_before_its_agent_has_begun_lets_the_next_one_in(tmp_path: Path) -> None:
    ways = Ways()
    fixture = RunnerFixture(LlmAgent(name="root", model=PatternModel([], default="ok")), tmp_path, ways=ways)
    runner = runner_of(fixture, fixture.session)
    gate = ways.hold("root", p.Invoke)
    first, second = (start(runner, "ada", number) for number in range(2))
    await gate.reached.wait()
    await first
    await runner.cancel_turn(p.CancelTurn(key=key("ada", "s0"), invocation_id="e-ada0"))
    await asyncio.wait_for(second, 30)
    gate.open()
    await runner.stop()
    await fixture.close()


async def test_more_are_inside_while_many_users_wait_and_as_few_as_ever_for_one_who_asks_for_much() -> None:
    turns = Arrivals(gate := TurnGate(2, of_many=4))
    await turns.come("a1", "a2", "a3", "a4", "a5", "b1")
    assert turns.inside == ["a1", "a2"]
    # Three users wait: as many may be inside. One that is let in waits no more.
    await turns.come("c1")
    assert (turns.inside, len(gate)) == (["a1", "a2", "a3"], 4)
    await turns.come("d1", "e1", "f1", "g1")
    assert turns.inside == ["a1", "a2", "a3", "b1"]
    for name in ("a1", "a2", "a3", "b1"):
        await turns.leave(name)
    assert turns.inside[4:] == ["c1", "a4", "d1", "e1"]
    # Three users wait, then two: no more are inside than before they came.
    for name in ("c1", "a4", "d1", "e1"):
        await turns.leave(name)
    assert (turns.inside[8:], len(gate)) == (["f1", "g1"], 1)


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


@pytest.mark.parametrize("why", ["unknown session", "store"])
async def test_a_turn_that_cannot_be_opened_lets_the_next_one_in(build: Build, why: str) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    runner = runner_of(fixture, fixture.session)
    # Once for what is stored together, and once alone.
    fixture.store.failures = 2 if why == "store" else 0
    message = p.StartTurn(key=key("ada"), invocation_id="e-1", content=Content.of_text("hi"), auto_create=why == "store")
    first = asyncio.create_task(runner.start_turn(message))
    await asyncio.sleep(0)
    second = start(runner, "bob", 0)
    with pytest.raises(StoreError if why == "store" else SessionNotFoundError):
        await first
    async with asyncio.timeout(5):
        await second
    await runner.stop()
