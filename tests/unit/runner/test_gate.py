"""Turns come to be opened a few at a time, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.errors import SessionNotFoundError, StoreError, TurnCancelledError
from actors.layers.services import runner_actor
from actors.layers.users import CancelWaitingTurns
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs import RunnerRef, SessionRef
from actors.runner.environment import RunnerEnvironment
from actors.testing import PatternModel
from runtime.engine.local import LocalLink
from tests.support import inside
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.separate_actors import Ways
from tests.support.fixtures.session_fixture import settled

Build = Callable[..., RunnerFixture]


@pytest.fixture(autouse=True, scope="module")
def hold() -> Iterator[None]:
    """No turn is let in because another one has had its time: on a busy machine each step may take that long."""
    with pytest.MonkeyPatch.context() as patch:
        inside.change(patch, "gate", HOLD_S=1000.0)
        yield


def key(user: str, session: str = "s") -> SessionKey:
    return SessionKey("app", user, session)


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

    async def open_turn(self, message: p.OpenTurn, *args: Any) -> p.OpenTurnReply:
        self.users.append(message.key.user)
        await self.may_open.acquire()
        return await super().open_turn(message, *args)


def start(runner: RunnerRef, user: str, number: int, session: str = "") -> asyncio.Task[p.TurnStarted]:
    message = p.StartTurn(
        key=key(user, session or f"s{number}"),
        invocation_id=f"e-{user}{number}",
        repeatable=True,
        content=Content.of_text("hi"),
        auto_create=True,
    )
    return asyncio.create_task(runner.start_turn(message))


def runner_of(fixture: RunnerFixture, session: SessionRef) -> RunnerRef:
    """A Runner that opens one turn at a time."""
    environment = RunnerEnvironment(
        session, fixture.directory, fixture.artifacts, turns_opened_at_once=1, turns_of_many_opened_at_once=1
    )
    runner = RunnerRef(LocalLink(runner_actor(environment)))
    fixture.directory.environment = replace(fixture.directory.environment, runner=runner)
    return runner


async def test_the_waiting_turns_of_a_user_are_cancelled_and_those_of_others_go_on(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    first, *others = [start(runner, "ada", number) for number in range(4)]
    bobs = start(runner, "bob", 0)
    await settled()
    await runner.ask(CancelWaitingTurns(app="app", user="ada"))
    assert [type(each) for each in await asyncio.gather(*others, return_exceptions=True)] == [TurnCancelledError] * 3
    for _ in range(2):
        session.may_open.release()
    await asyncio.gather(first, bobs)
    assert session.users == ["ada", "bob"]
    assert (await runner.statistics()).counts["waiting"] == 0
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
    await runner.ask(p.CancelTurn(key=key("ada", "s0"), invocation_id="e-ada0"))
    await asyncio.wait_for(second, 30)
    gate.open()
    await runner.stop()
    await fixture.close()


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
    assert (await runner.statistics()).counts["waiting"] == 0
    await runner.stop()


async def test_requests_for_a_turn_come_in_together_and_are_cancelled_together(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=PatternModel([], default="ok")))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    first = start(runner, "ada", 0)
    await settled()
    together = [start(runner, "ada", 1) for _ in range(2)]
    await settled()
    session.may_open.release()
    await first
    await settled()
    together.append(start(runner, "ada", 1))
    await settled()
    # It is being opened: what comes of it is known when it is open.
    cancelling = asyncio.create_task(runner.ask(p.CancelTurn(key=key("ada", "s1"), invocation_id="e-ada1")))
    await settled()
    for _ in together:
        session.may_open.release()
    await asyncio.gather(*together, cancelling)
    assert session.users == ["ada"] * 4
    assert (await runner.statistics()).counts["waiting"] == 0
    await runner.stop()


async def test_a_request_for_a_turn_that_runs_joins_it_also_when_it_is_cancelled_before_that_comes_in(build: Build) -> None:
    fixture = build(LlmAgent(name="root", model=WaitingModel()))
    session = SlowSession(fixture.session._link)
    runner = runner_of(fixture, session)
    session.may_open.release()
    await start(runner, "ada", 0)
    bobs = start(runner, "bob", 0)
    await settled()
    again = start(runner, "ada", 0)
    await settled()
    await runner.ask(p.CancelTurn(key=key("ada", "s0"), invocation_id="e-ada0"))
    for _ in range(2):
        session.may_open.release()
    await bobs
    assert (await again).attached
    await runner.stop()
