"""A turn that another Runner has opened, and of which it has run no agent before it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import BaseAgent, CallbackContext, Content, CustomAgent, InvocationContext, LlmAgent, Plugin, SequentialAgent
from actors.agent.environment import AgentEnvironment
from actors.errors import StoreError
from actors.interfaces.transport import Link
from actors.layers.draining import Drain
from actors.layers.interceptors import INTERCEPTORS
from actors.layers.listing.client import get_turn, list_turns
from actors.layers.listing.messages import ListTurns
from actors.layers.retries import RetryTurn
from actors.layers.services import runner_actor
from actors.layers.toolsets import OpenToolsets
from actors.layers.trees.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import USER, Event, EventActions, encode_event
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.session import SessionKey
from actors.refs import RunnerRef, SessionRef
from actors.runner.environment import RunnerEnvironment
from actors.testing import PatternModel, ScriptedModel
from runtime.engine.local import LocalDirectory, LocalLink
from runtime.models.registry import resolve
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.separate_actors import Gate, Ways
from tests.support.fixtures.session_fixture import KEY, OTHER, FailingStore, settled


class Greeting(Plugin):
    """Answers a message itself when the state says so, and notes what it has read there."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[object] = []

    def before_run_callback(self, context: CallbackContext) -> Content | None:
        self.read.append(context.state["greet"])
        return Content.of_text("hello", "model") if context.state["greet"] else None


@pytest.mark.parametrize(("greet", "said"), [(True, "hello"), (False, "from the model")])
async def test_it_begins_with_the_hooks_of_the_beginning_which_see_its_state(tmp_path: Path, greet: bool, said: str) -> None:
    plugin, model = Greeting(), ScriptedModel(["from the model"])
    fixture = RunnerFixture(LlmAgent(name="root", model=model), tmp_path, plugins=[plugin])
    asked = Event(
        id="m-1",
        invocation_id="e-1",
        author=USER,
        content=Content.of_text("hi"),
        actions=EventActions(state_delta={"greet": greet}),
    )
    opened = await fixture.session.open_turn(
        p.OpenTurn(
            key=KEY,
            invocation_id="e-1",
            event=encode_event(asked),
            state_delta={"greet": greet},
            auto_create=True,
            subscriber="driver",
            runner="another",
        )
    )
    assert isinstance(opened, p.TurnBegun)
    await fixture.runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    events, outcome = await fixture.end("driver")
    assert isinstance(outcome, p.Finished)
    assert plugin.read == [greet]
    assert [event.text for event in events] == [said]
    await fixture.close()


class Beginning(Plugin):
    """Answers a message, or only writes state; the first Runner that ends a turn never comes back from the hook."""

    def __init__(self, content: Content | None) -> None:
        super().__init__()
        self._content = content
        self.begun: list[str] = []
        self.ending = asyncio.Event()

    def before_run_callback(self, context: CallbackContext) -> Content | None:
        self.begun.append(context.agent_name)
        context.state["begun"] = True
        return self._content

    async def after_run_callback(self, context: CallbackContext) -> None:
        if not self.ending.is_set():
            self.ending.set()
            await asyncio.Event().wait()


class Yielding(CustomAgent):
    """Speaks."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("I run", role="model"))


def kinds() -> list[BaseAgent]:
    def speaks(context: CallbackContext) -> str:
        return "after"

    return [
        LlmAgent(name="root", model=PatternModel([], default="I run"), after_agent_callback=speaks),
        SequentialAgent(name="root", sub_agents=[LlmAgent(name="a", model=PatternModel([], default="I run"))]),
        Yielding(name="root"),
    ]


async def resumed_elsewhere(fixture: RunnerFixture, root: BaseAgent, plugin: Plugin) -> RunnerRef:
    """Another Runner over the same Session actor, which takes the turn over."""
    directory = LocalDirectory(AgentTree(root, [plugin]))
    runner = RunnerRef(LocalLink(runner_actor(RunnerEnvironment(fixture.session, directory, fixture.artifacts, [plugin]))))
    directory.environment = AgentEnvironment(
        fixture.session, runner, fixture.artifacts, resolve, toolsets=OpenToolsets(), interceptors=INTERCEPTORS
    )
    await runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    return runner


@pytest.mark.parametrize("root", kinds(), ids=lambda agent: agent.kind)
async def test_a_message_that_a_hook_has_answered_runs_no_agent_when_the_runner_is_lost_then(
    tmp_path: Path, root: BaseAgent
) -> None:
    plugin = Beginning(Content.of_text("hello", "model"))
    fixture = RunnerFixture(root, tmp_path, plugins=[plugin])
    await fixture.start()
    await plugin.ending.wait()
    runner = await resumed_elsewhere(fixture, root, plugin)
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["hello"]
    assert plugin.begun == ["root"]
    await runner.stop()
    await fixture.close()


async def test_an_agent_begins_as_it_would_when_only_a_hook_has_written_before_the_runner_is_lost(tmp_path: Path) -> None:
    def begins(context: CallbackContext) -> None:
        context.state["agent"] = "begun"

    plugin = Beginning(None)
    plugin.ending.set()
    ways = Ways()
    root = LlmAgent(name="root", model=PatternModel([], default="I run"), before_agent_callback=begins)
    fixture = RunnerFixture(root, tmp_path, plugins=[plugin], ways=ways)
    gate = ways.hold("root", p.Invoke)
    await fixture.start()
    await gate.reached.wait()
    runner = await resumed_elsewhere(fixture, root, plugin)
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events if event.text] == ["I run"]
    assert plugin.begun == ["root"]
    assert await fixture.state() == {"begun": True, "agent": "begun"}
    gate.open()
    await runner.stop()
    await fixture.close()


async def leave_open(fixture: RunnerFixture, key: SessionKey = KEY) -> None:
    """A Runner opens a turn, and is lost."""
    asked = Event(id="m-1", invocation_id="e-1", author=USER, content=Content.of_text("hi"))
    await fixture.session.open_turn(
        p.OpenTurn(key=key, invocation_id="e-1", event=encode_event(asked), auto_create=True, runner="runner/lost")
    )


class LateReplies(SessionRef):
    """A client of the Session actor that gets the first reply to each of some messages only when it may.

    Args:
        kinds: of the messages.
    """

    def __init__(self, link: Link, kinds: Sequence[type[p.Message]]) -> None:
        super().__init__(link)
        self._gates = {kind: Gate() for kind in kinds}

    async def _ask(self, request: p.Request[Any], *args: Any, **options: Any) -> Any:
        reply = await super()._ask(request, *args, **options)
        gate = self._gates.get(type(request))
        if gate is not None and not isinstance(reply, p.NotLeader):
            await gate.let_pass()
        return reply

    async def until_sent(self, kind: type[p.Message]) -> None:
        """Wait until the reply is on its way, and everything else goes no further without it."""
        await self._gates[kind].reached.wait()
        await settled()

    def let_come(self, kind: type[p.Message]) -> None:
        """Let the reply arrive."""
        self._gates[kind].open()


@pytest.mark.parametrize(
    "late",
    [
        pytest.param([p.ResumeTurn], id="asked for while it is resumed"),
        pytest.param([p.ListOpenTurns, p.OpenTurn], id="resumed while it is asked for"),
    ],
)
async def test_one_that_is_asked_for_again_while_its_runner_takes_it_up_runs_once(
    tmp_path: Path, late: Sequence[type[p.Message]]
) -> None:
    fixture = RunnerFixture(LlmAgent(name="root", model=PatternModel([], default="I run")), tmp_path)
    await leave_open(fixture)
    session = LateReplies(fixture.session._link, late)
    runner = fixture.use(session)
    recovering = asyncio.create_task(runner.receive(encode(p.RecoverTurns())))
    await session.until_sent(late[0])
    starting = asyncio.create_task(fixture.start(turn="e-1", event_id="m-1", repeatable=True))
    await session.until_sent(late[-1])
    for kind in late:
        session.let_come(kind)
        await settled()
    assert await starting == "e-1"
    await recovering
    while (await fixture.runner.statistics()).counts["running"]:
        await settled()
    assert [event.text for event in await fixture.log()] == ["hi", "I run"]
    assert (await fixture.runner.statistics()).counts["turns"] == 1
    await fixture.close()


WANTS: dict[str, tuple[type[p.Message], Callable[[RunnerFixture], Awaitable[object]]]] = {
    "a driver that reads": (
        p.ResumeTurn,
        lambda fixture: fixture.runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1")),
    ),
    "the same message": (p.OpenTurn, lambda fixture: fixture.start(turn="e-1", event_id="m-1", repeatable=True)),
    "a retry": (RetryTurn, lambda fixture: fixture.runner.ask(RetryTurn(key=KEY, invocation_id="e-1"))),
}
"""Requests for a turn, each with the message by which the Runner gets it."""


@pytest.mark.parametrize("then", WANTS)
@pytest.mark.parametrize("first", ["a driver that reads", "a retry"])
async def test_requests_that_meet_at_one_that_was_lost_take_it_up_once(tmp_path: Path, first: str, then: str) -> None:
    fixture = RunnerFixture(LlmAgent(name="root", model=PatternModel([], default="I run")), tmp_path)
    await leave_open(fixture)
    kind, ask = WANTS[first]
    session = LateReplies(fixture.session._link, [kind])
    fixture.use(session)
    asking = [asyncio.ensure_future(ask(fixture))]
    await session.until_sent(kind)
    asking.append(asyncio.ensure_future(WANTS[then][1](fixture)))
    await settled()
    session.let_come(kind)
    await asyncio.gather(*asking)
    while (await fixture.runner.statistics()).counts["running"]:
        await settled()
    assert [event.text for event in await fixture.log()] == ["hi", "I run"]
    turn = await get_turn(fixture.session, KEY, "e-1")
    assert (turn.state, turn.epoch, len(turn.lost)) == ("finished", 2, 1)
    await fixture.close()


async def test_one_of_which_a_cancel_could_not_be_stored_runs_no_more_when_it_is_taken_up(tmp_path: Path) -> None:
    fixture = RunnerFixture(LlmAgent(name="root", model=PatternModel([], default="I run")), tmp_path)
    await leave_open(fixture)
    fixture.store.failures = 100
    with pytest.raises(StoreError):
        await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    await fixture.restart_session()
    await fixture.runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    while (found := await get_turn(fixture.session, KEY, "e-1")).state == "running":
        await settled()
    assert found.state == "cancelled"
    assert [event.text for event in await fixture.log()] == ["hi"]
    await fixture.close()


class Unreachable:
    """A model that is asked in vain, while the store goes down."""

    def __init__(self) -> None:
        self.store: FailingStore | None = None
        self.calls = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        if self.store is None:
            yield LlmResponse()
            return
        self.store.down = True
        raise ValueError("no answer")


async def test_one_whose_end_was_not_stored_ends_and_runs_no_more(tmp_path: Path) -> None:
    model = Unreachable()
    fixture = RunnerFixture(LlmAgent(name="root", model=model), tmp_path)
    model.store = fixture.store
    await fixture.start(turn="e-1")
    while not fixture.store.failures:
        await settled()
    await fixture.restart_session()
    await fixture.runner.ask(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    while (found := await get_turn(fixture.session, KEY, "e-1")).state == "running":
        await settled()
    assert (found.state, found.epoch, model.calls) == ("failed", 1, 1)
    await fixture.close()


async def test_a_drain_counts_those_whose_ends_are_not_stored(tmp_path: Path) -> None:
    model = Unreachable()
    fixture = RunnerFixture(LlmAgent(name="root", model=model), tmp_path)
    model.store = fixture.store
    await fixture.start(turn="e-1")
    assert isinstance((await fixture.end("e-1"))[1], p.Failed)
    while (await fixture.runner.statistics()).counts["running"]:
        await settled()
    assert (await fixture.runner.ask(Drain(lease_s=60.0))).left == 1
    await fixture.close()


async def test_those_that_were_lost_are_taken_up_at_the_same_time(tmp_path: Path) -> None:
    fixture = RunnerFixture(LlmAgent(name="root", model=PatternModel([], default="I run")), tmp_path)
    keys = [KEY, OTHER]
    for key in keys:
        await leave_open(fixture, key)
    session = LateReplies(fixture.session._link, [p.ResumeTurn])
    recovering = asyncio.create_task(fixture.use(session).receive(encode(p.RecoverTurns())))
    await session.until_sent(p.ResumeTurn)
    # A loss has given each an epoch more.
    while {turn.epoch for turn in await list_turns(fixture.session, ListTurns(app=KEY.app, state="running", limit=9))} != {2}:
        await settled()
    assert not recovering.done()
    session.let_come(p.ResumeTurn)
    await recovering
    while (await fixture.runner.statistics()).counts["running"]:
        await settled()
    assert (await fixture.runner.statistics()).counts["turns"] == 2
    await fixture.close()
