"""The actor of an MCP server over connections that do what a test wants, and the task that owns a connection."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.errors import DefinitionError, McpServerError, McpToolError
from actors.layers.mcp.messages import CallMcpTool, ListMcpTools, McpResult, McpServer, McpToolInfo, StopMcpCall
from actors.messages.content import Part
from actors.messages.session import SessionKey
from runtime.integrations.mcp.actor import KEPT_IDLE, McpActor, connect
from runtime.integrations.mcp.answers import Answers, given_answers, question_for
from runtime.integrations.mcp.connection import filled_in
from runtime.integrations.mcp.link import ConnectionGoneError, Owner, ServerLink
from tests.support.modules import forget_modules
from tests.support.virtual_time import run_virtually

KEY = SessionKey("app", "ada", "s1")


class Link:
    """Implements ServerLink."""

    def __init__(self, server: FakeServer, on_change: Callable[[], None]) -> None:
        self.server = server
        self.on_change = on_change
        self.is_open = False

    async def open(self) -> None:
        if self.server.refuses:
            self.server.refuses -= 1
            raise ConnectionGoneError("refused")
        self.is_open = True

    def retire(self) -> None:
        self.is_open = False

    async def close(self) -> None:
        self.is_open = False

    async def list_tools(self) -> Sequence[McpToolInfo]:
        if self.server.is_away:
            raise ConnectionGoneError("away")
        return [McpToolInfo(name=name) for name in self.server.tools]

    async def call(self, message: CallMcpTool) -> McpResult:
        self.server.calls.append(message.call_id)
        self.server.begun.set()
        if self.server.loses:
            self.server.loses -= 1
            raise ConnectionGoneError("lost")
        if message.tool == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                self.server.calls.append("stopped")
        return McpResult(parts=[Part(text="done")])


class FakeServer:
    """What the server does: refuse connections, lose calls, be away."""

    def __init__(self, **options: Any) -> None:
        self.tools = ["add"]
        self.refuses = self.loses = 0
        self.is_away = False
        self.begun = asyncio.Event()
        self.calls: list[str] = []
        self.links: list[Link] = []
        self.actor = McpActor(McpServer(name="fake", command=["x"], **options), connect=self.connect)

    def connect(
        self, server: McpServer, headers: Mapping[str, str], on_change: Callable[[], None], idle_s: float | None
    ) -> ServerLink:
        self.links.append(Link(self, on_change))
        return self.links[-1]

    async def call(self, tool: str = "add", call_id: str = "c1") -> McpResult:
        return await self.actor.call(CallMcpTool(session=KEY, tool=tool, call_id=call_id))

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self.actor.list_tools(ListMcpTools(session=KEY))).tools or ()]


async def test_a_lost_call_is_made_once_more_under_its_id() -> None:
    fake = FakeServer()
    fake.loses = 1
    assert (await fake.call()).parts[0].text == "done"
    assert fake.calls == ["c1", "c1"]
    fake.loses = 2
    with pytest.raises(McpServerError, match="the connection was lost twice: lost"):
        await fake.call(call_id="c2")
    assert fake.calls[2:] == ["c2", "c2"]
    assert len(fake.links) == 4 - 1


@pytest.mark.parametrize(("connect_timeout_s", "attempts"), [(0, 1), (1.5, 4), (10, 8), (60, 33)])
def test_connecting_is_tried_for_a_while_for_all_that_wait(connect_timeout_s: float, attempts: int) -> None:
    async def run() -> None:
        fake = FakeServer(timeout_s=100, connect_timeout_s=connect_timeout_s)
        fake.refuses = attempts - 1
        assert len(await asyncio.gather(*(fake.call(call_id=f"c{number}") for number in range(5)))) == 5
        assert len(fake.links) == attempts
        fake = FakeServer(timeout_s=100, connect_timeout_s=connect_timeout_s)
        fake.refuses = attempts
        told = await asyncio.gather(fake.call(), fake.call(), return_exceptions=True)
        assert [str(each) for each in told] == ["MCP server 'fake': it cannot be reached: refused"] * 2

    run_virtually(run())


def test_an_agent_that_knows_the_tools_does_not_wait_long_for_a_server_that_is_away() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        fake = FakeServer(cache_s=1, connect_timeout_s=50)
        await fake.names()
        fake.links[-1].retire()
        fake.refuses = 10_000
        for _ in range(3):
            await asyncio.sleep(6)
            begun_s = loop.time()
            assert await fake.names() == ["add"]
            assert loop.time() - begun_s == pytest.approx(2.0)
        fake.refuses, fake.tools = 0, ["subtract"]
        await asyncio.sleep(6)
        assert await fake.names() == ["subtract"]

    run_virtually(run())


def test_the_list_is_kept_until_it_is_old_or_has_changed_and_survives_the_server() -> None:
    async def run() -> None:
        fake = FakeServer(cache_s=10)
        assert await fake.names() == ["add"]
        fake.tools.append("grown")
        assert await fake.names() == ["add"]
        fake.links[-1].on_change()
        assert await fake.names() == ["add", "grown"]
        fake.tools.append("later")
        await asyncio.sleep(11)
        assert await fake.names() == ["add", "grown", "later"]
        fake.is_away = True
        await asyncio.sleep(11)
        assert await fake.names() == ["add", "grown", "later"]
        fake.is_away = False
        fake.tools.clear()
        await asyncio.sleep(6)
        assert await fake.names() == []

    run_virtually(run())


async def test_a_list_that_is_known_is_not_sent_again() -> None:
    fake = FakeServer()
    listed = await fake.actor.list_tools(ListMcpTools(session=KEY))
    again = await fake.actor.list_tools(ListMcpTools(session=KEY, known=listed.version))
    assert (again.version, again.tools) == (listed.version, None)


async def test_a_call_can_be_stopped() -> None:
    fake = FakeServer()
    calling = asyncio.create_task(fake.call("wait"))
    await fake.begun.wait()
    await fake.actor.stop_call(StopMcpCall(call_id="c1"))
    with pytest.raises(McpServerError, match="the call was stopped"):
        await calling
    assert fake.calls == ["c1", "stopped"]
    await fake.actor.stop_call(StopMcpCall(call_id="c1"))


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_modules(monkeypatch, "runtime.integrations.mcp.connection", "runtime.integrations.mcp.connection", "mcp", "mcp_types")
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with pytest.raises(DefinitionError, match=r"McpTools 'files' needs .* pip install 'raygrove\[mcp\]'"):
        connect(McpServer(name="files", command=["x"]), {}, lambda: None, None)


def test_variables_of_the_environment_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t0k")
    assert filled_in("files", {"Authorization": "Bearer ${TOKEN}", "plain": "$x"}) == {
        "Authorization": "Bearer t0k",
        "plain": "$x",
    }
    with pytest.raises(DefinitionError, match=r"McpTools 'files' names \$\{NOT_THERE\}, which is not set"):
        filled_in("files", {"a": "${NOT_THERE}"})


def test_each_answer_is_used_once_for_its_question() -> None:
    day, place = {"message": "Day?"}, {"message": "Place?"}
    first = given_answers("book", None, None)
    memo = first.memo({"a": day}, None)
    second = given_answers("book", memo, {"action": "accept", "content": {"day": "Monday"}, "more": 1})
    assert second.newest == {"a": {"action": "accept", "content": {"day": "Monday"}}}
    both = second.memo({"b": day, "c": place}, "opaque")
    assert question_for(both["asked"]) == {"questions": {"b": day, "c": place}}
    third = given_answers("book", both, {"b": {"action": "decline", "content": {}}, "c": {"action": "cancel"}})
    assert third.state == "opaque"
    answers = Answers(third.known)
    assert [answers.take_answer(each) for each in (day, day, place, day)] == [
        {"action": "accept", "content": {"day": "Monday"}},
        {"action": "decline"},
        {"action": "cancel"},
        None,
    ]
    with pytest.raises(McpToolError, match="the answer to its question 'b' has to be"):
        given_answers("book", both, {"c": {"action": "cancel"}})


def test_what_is_known_of_sessions_whose_connections_are_closed_takes_no_more_room_with_each() -> None:
    async def many() -> None:
        server = FakeServer(scope="session")
        for number in range(4 * KEPT_IDLE):
            session = SessionKey("app", "ada", f"s{number}")
            await server.actor.list_tools(ListMcpTools(session=session))
            if number != 7:
                server.links[-1].is_open = False
        assert len(server.actor._shared) <= 2 * KEPT_IDLE
        # The one that is open is the one that is used.
        await server.actor.list_tools(ListMcpTools(session=SessionKey("app", "ada", "s7")))
        assert len(server.links) == 4 * KEPT_IDLE

    run_virtually(many())


class Fake:
    """A connection that notes by which tasks it is opened and closed."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[object] | None] = []
        self.closed = asyncio.Event()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[str]:
        self.tasks.append(asyncio.current_task())
        yield "open"
        self.tasks.append(asyncio.current_task())
        self.closed.set()

    async def beside(self, connection: str) -> None:
        await asyncio.Event().wait()

    def owner(self, idle_s: float | None = None) -> Owner[str]:
        return Owner(self.connected, self.beside, as_error, idle_s)


def as_error(error: BaseException) -> Exception:
    return ConnectionGoneError(type(error).__name__)


async def cancels_itself(connection: str) -> None:
    raise asyncio.CancelledError


async def test_one_task_opens_and_closes_whatever_tasks_ask() -> None:
    fake = Fake()
    owner = fake.owner()
    await owner.open()

    async def work(connection: str) -> str:
        return connection

    assert await asyncio.create_task(owner.do(work)) == "open"
    await asyncio.create_task(owner.close())
    assert not owner.is_open
    opened, closed = fake.tasks
    assert opened is closed is not asyncio.current_task()
    with pytest.raises(ConnectionGoneError):
        await owner.do(work)


async def test_a_cancellation_inside_is_an_error_for_the_caller() -> None:
    owner = Fake().owner()
    await owner.open()
    with pytest.raises(ConnectionGoneError, match="CancelledError"):
        await owner.do(cancels_itself)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await owner.close()


async def test_a_caller_that_is_cancelled_ends_its_work_and_no_other() -> None:
    owner = Fake().owner()
    await owner.open()
    begun, ended, other = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def waits(connection: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def waits_for_other(connection: str) -> str:
        await other.wait()
        return "done"

    going_on = asyncio.create_task(owner.do(waits_for_other))
    caller = asyncio.create_task(owner.do(waits))
    await begun.wait()
    caller.cancel()
    await ended.wait()
    with pytest.raises(asyncio.CancelledError):
        await caller
    owner.retire()
    assert not owner.is_open
    other.set()
    assert await going_on == "done"
    await owner.close()


async def test_one_that_is_closed_fails_what_is_under_way() -> None:
    owner = Fake().owner()
    await owner.open()
    begun = asyncio.Event()

    async def waits(connection: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    caller = asyncio.create_task(owner.do(waits))
    await begun.wait()
    await owner.close()
    with pytest.raises(ConnectionGoneError):
        await caller


async def test_one_that_is_idle_closes() -> None:
    fake = Fake()
    owner = fake.owner(idle_s=0.001)
    await owner.open()
    await fake.closed.wait()
    assert len(fake.tasks) == 2


async def test_one_that_cannot_be_opened_says_why() -> None:
    @asynccontextmanager
    async def refuses() -> AsyncIterator[str]:
        raise ExceptionGroup("several", [OSError("no server")])
        yield ""  # type: ignore[unreachable]

    owner = Owner(refuses, Fake().beside, as_error)
    with pytest.raises(ConnectionGoneError, match="OSError: no server"):
        await owner.open()
