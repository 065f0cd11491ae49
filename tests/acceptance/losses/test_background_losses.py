"""Runs in the background end once and are heard of once, whichever actor is lost at whichever message; so are messages."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal, get_args

import pytest

from actors import (
    AgentTool,
    Background,
    BackgroundRun,
    Content,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    ParallelAgent,
    Part,
    ToolContext,
    tool,
)
from actors.errors import SessionBusyError
from actors.layers.stores.schedule import ScheduleRow
from actors.messages import protocol as p
from actors.messages.content import FunctionCall
from actors.messages.session import run_of
from runtime.driver.runtime import Runtime
from runtime.stores.sql.schema import schedules
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Process, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.polling import until
from tests.support.runtimes import stored

How = Literal["read", "own_turn", "cancelled", "cancelled_at_once", "refused"]

STATUS = {"cancelled": "cancelled", "cancelled_at_once": "cancelled", "refused": "failed", "read": "done", "own_turn": "done"}


@tool
async def start_empty(tool_context: ToolContext) -> str:
    """Start a run with a message that no turn may begin with."""
    return (await tool_context.start("helper", "")).id


def words(text: str) -> LlmResponse:
    return LlmResponse(content=Content.of_text(text, role="model"))


class Parent:
    """Calls tools, one after the other, and says which ends of runs it was shown.

    Attributes:
        may_go_on: its tool `wait` may end.
    """

    def __init__(self, *tools: str) -> None:
        self.may_go_on = threading.Event()
        self._tools = tools

    async def wait(self) -> str:
        """Wait for the test."""
        await asyncio.to_thread(self.may_go_on.wait, 20)
        return "over"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        given = sum(1 for content in request.contents for _ in content.function_responses())
        if given < len(self._tools):
            args = {"request": "look it up"} if self._tools[given] == "helper" else {}
            yield LlmResponse(
                content=Content(role="model", parts=[Part(function_call=FunctionCall(name=self._tools[given], args=args))])
            )
        else:
            ends = sum(content.text.startswith("Background run") for content in request.contents)
            yield words(f"{ends} heard")


class Helper:
    """Says 42 once it may.

    Attributes:
        is_at_work, may_end: a call is under way, and may end.
    """

    def __init__(self) -> None:
        self.is_at_work, self.may_end = threading.Event(), threading.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.is_at_work.set()
        await asyncio.to_thread(self.may_end.wait, 20)
        yield words("42")


def is_idle(rt: Runtime) -> bool:
    return rt.turns.counts().open == 0


def ends(rt: Runtime) -> list[str]:
    """What the parent's log says of runs."""
    return [event.text for event in stored(rt) if event.text.startswith("Background run")]


def waiting(folder: str) -> list[str]:
    """What the store has under way: records of runs, and messages that wait."""
    with closing(sqlite3.connect(f"{folder}/sessions.db")) as store:
        return [row[0] for row in store.execute(f"select id from {schedules.name}")]


def played(how: How, *losses: Loss) -> LossyEngine:
    """A turn that starts a run, which ends."""
    tools = ["start_empty" if how == "refused" else "helper", *["wait"] * (how == "read")]
    parent, helper = Parent(*tools), Helper()
    worker = LlmAgent(name="helper", description="looks up", model=helper)
    given = [AgentTool(worker, background=Background()), parent.wait, start_empty]
    with quick_folder() as folder:
        rt, engine = lossy_runtime(LlmAgent(name="root", model=parent, tools=given), Path(folder), losses)
        engine.watches = True
        with rt:
            turn = rt.run(user_id="ada", session_id="s1", message="begin")
            until(lambda: bool(rt.background.list("ada", "s1")))
            [run] = rt.background.list("ada", "s1")
            if how not in ("cancelled_at_once", "refused"):
                assert helper.is_at_work.wait(20)
            if how in ("own_turn", "cancelled"):
                assert turn.result().text == "0 heard"
            if how.startswith("cancelled"):
                rt.background.cancel("ada", "s1", run.id)
            else:
                helper.may_end.set()
            [run] = rt.background.wait("ada", "s1", timeout_s=20)
            assert run.status == STATUS[how]
            parent.may_go_on.set()
            turn.result()
            until(lambda: bool(ends(rt)) and is_idle(rt))
            check(rt, how)
            assert rt.background.get("ada", "s1", run.id) == run
            helper.may_end.set()
        # Nothing waits any more.
        assert waiting(folder) == [run.id]
    return engine


def check(rt: Runtime, how: How) -> None:
    [run] = rt.background.list("ada", "s1")
    log = stored(rt)
    assert len(ends(rt)) == 1
    assert (log[-1].author, log[-1].text) == ("root", "1 heard")
    of_run = [event.text for event in stored(rt, run.run_session_id)]
    if how.startswith("cancelled") or how == "refused":
        assert of_run in ([], ["look it up"])
    else:
        assert of_run == ["look it up", "42"]


@pytest.mark.parametrize("how", get_args(How))
def test_without_losses_a_run_ends_once(how: How) -> None:
    assert played(how).lost == []


@pytest.mark.sampled(24, full=6)
@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_run_ends_once_whichever_actor_is_lost_at_whichever_message(who: Victim, how: How, before: bool) -> None:
    for at in range(played(how).messages):
        played(how, Loss(at, who, before))


class Held:
    """Runs whose turns do not begin before the test wants it.

    Attributes:
        may_begin: they may.
        begins: the first one does.
    """

    def __init__(self, engine: LossyEngine) -> None:
        self.may_begin, self.begins = threading.Event(), threading.Event()
        engine.watches = True
        engine.meddler = self._hold

    async def _hold(self, sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, p.OpenTurn) and run_of(message.key.session) is not None and not handled:
            await asyncio.to_thread(self.may_begin.wait, 20)
            self.begins.set()


def starting(runs: int, helper: Helper | None = None) -> LlmAgent:
    """An agent that starts so many runs."""
    worker = LlmAgent(name="helper", model=helper or Helper())
    return LlmAgent(name="root", model=Parent(*["helper"] * runs), tools=[AgentTool(worker, background=True)])


def two_started(rt: Runtime) -> list[BackgroundRun]:
    rt.run(user_id="ada", session_id="s1", message="begin").result()
    runs = rt.background.list("ada", "s1")
    assert [run.status for run in runs] == ["running"] * 2
    return runs


def test_each_run_that_is_cancelled_before_it_begins_ends_once() -> None:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(starting(2), Path(folder))
        held = Held(engine)
        with rt:
            for run in two_started(rt):
                rt.background.cancel("ada", "s1", run.id)
            held.may_begin.set()
            assert [run.status for run in rt.background.wait("ada", "s1", timeout_s=20)] == ["cancelled"] * 2
            until(lambda: len(ends(rt)) == 2 and is_idle(rt))
            assert len(set(ends(rt))) == 2
            assert [session.id for session in rt.sessions.list()] == ["s1"]
        assert len(waiting(folder)) == 2


def test_what_has_not_begun_is_deleted_with_its_session() -> None:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(starting(2), Path(folder))
        held = Held(engine)
        with rt:
            runs = two_started(rt)
            rt.sessions.delete("ada", "s1")
            held.may_begin.set()
            until(lambda: rt.statistics().runner.counts["waiting"] == 0 and is_idle(rt))
            assert rt.background.list("ada", "s1") == []
            assert [stored(rt, run.run_session_id) for run in runs] == [[], []]
        assert waiting(folder) == []


class MeddledStore(SqlSessionStore):
    """Lets the test do something while waiting messages and runs are read."""

    meddler: Callable[[], object] | None = None

    def schedules_with(self, app: str, user: str, prefix: str, *, limit: int | None = None) -> list[ScheduleRow]:
        if self.meddler is not None:
            self.meddler()
        return super().schedules_with(app, user, prefix, limit=limit)


def test_a_run_that_begins_while_its_session_is_deleted_goes_with_it_or_keeps_it() -> None:
    helper = Helper()
    helper.may_end.set()
    with quick_folder() as folder:
        store = MeddledStore(f"sqlite:///{folder}/sessions.db")
        rt, engine = lossy_runtime(starting(1, helper), Path(folder), session_store=store)
        held = Held(engine)
        with rt:
            rt.run(user_id="ada", session_id="s1", message="begin").result()
            [run] = rt.background.list("ada", "s1")

            def begin() -> None:
                held.may_begin.set()
                held.begins.wait(20)

            store.meddler = begin
            with suppress(SessionBusyError):
                rt.sessions.delete("ada", "s1")
            until(lambda: rt.statistics().runner.counts["waiting"] == 0 and is_idle(rt))
            assert bool(stored(rt, run.run_session_id)) == bool(stored(rt)) == bool(rt.background.list("ada", "s1"))


class Talker(CustomAgent):
    """Sends another agent messages, and says those that it gets from it."""

    to: str

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(2):
            await context.send(self.to, f"{self.name} {number}")
            yield Event(content=Content.of_text(f"sent {number}", role="model"))
        for _ in range(2):
            message = await context.next_message()
            yield Event(content=Content.of_text(f"{message.sender}: {message.text}", role="model"))


def talked(*losses: Loss) -> LossyEngine:
    """Two agents send each other messages."""
    root = ParallelAgent(name="root", sub_agents=[Talker(name="ann", to="bob"), Talker(name="bob", to="ann")])
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        engine.watches = True
        with rt:
            turn = rt.run(user_id="ada", session_id="s1", message="begin")
            turn.result()
            log = stored(rt)
            for one, other in (("ann", "bob"), ("bob", "ann")):
                said = [event.text for event in log if event.author == one]
                assert said == ["sent 0", "sent 1", f"{other}: {other} 0", f"{other}: {other} 1"]
            assert len([event for event in log if event.author == "user"]) == 5
            until(lambda: is_idle(rt))
        assert waiting(folder) == []
    return engine


def test_without_losses_each_message_is_read_once_and_in_order() -> None:
    assert talked().lost == []


@pytest.mark.sampled(6, full=3)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("who", get_args(Victim))
def test_each_message_is_read_once_whichever_actor_is_lost(who: Victim, before: bool) -> None:
    for at in range(talked().messages):
        talked(Loss(at, who, before))
