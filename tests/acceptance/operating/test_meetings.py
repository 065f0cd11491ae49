"""Whatever a turn is in the middle of, and whatever an operator does meanwhile: nothing is lost, doubled or jumbled."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import AgentTool, Event, EventsCompactionConfig, FunctionTool, LlmAgent, Paused, tool
from actors.errors import RequestError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.support.polling import until
from tests.support.programs.hall import Hall, right_clock
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.postgres_server import NoPostgresError, PostgresServer, postgres_server, short_folder
from tests.support.servers.web_server import TIMEOUT_S, serving
from tests.support.several_stores import store_files, users_at
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.sqlite_lock import SqliteLock

USER = users_at(0, 2)[0]


@tool(long_running=True)
def ask(what: str) -> None:
    """Ask the user."""


def desk(hall: Hall, says: str = "old") -> LlmAgent:
    """Waits in the hall, has an expert wait there, or asks twice at once; at the end it says `says`."""
    waits = FunctionTool(hall.wait)
    asks: Any = {"parts": [{"call": "ask", "args": {"what": what}} for what in ("one", "two")]}
    expert = LlmAgent(
        name="expert",
        description="Waits.",
        model=PatternModel([("", {"call": "wait", "args": {"name": "expert"}}), ("tool:", "waited")]),
        tools=[waits],
    )
    rules: list[Any] = [("tool:", says), ("ask", asks), ("expert", {"call": "expert", "args": {"request": "wait"}})]
    rules += [(f"wait for {name}", {"call": "wait", "args": {"name": name}}) for name in ("it", "0", "1", "2")]
    return LlmAgent(name="root", model=PatternModel(rules, default="hello"), tools=[waits, ask, AgentTool(expert)])


class Scene:
    """A deployment over two stores, with a user who has talked before.

    Attributes:
        rt: the one that lives.
        says: what turns say at the end that began before anything was done.
        is_replaced: the deployment is another one than that in which the turns began.
    """

    def __init__(self, deploy: Deploy, folder: Path, urls: Sequence[str] = (), **options: Any) -> None:
        self.hall = Hall(folder)
        self.urls = urls or store_files(folder, 2)
        self.files = [folder / f"store-{each}.db" for each in range(2)]
        self.is_replaced = False
        self._deploy = deploy
        self._options = options
        self.rt = self._started()
        for session in ("s1", "other"):
            run_turn(self.rt, "hi", session, USER)
            run_turn(self.rt, "hi", session, USER)

    def _started(self) -> Runtime:
        rt = self._deploy(desk(self.hall), session_store=self.urls, **self._options)
        rt.start()
        return rt

    def replace(self) -> None:
        """Another deployment goes on with the open turns."""
        self.rt = self._started()
        self.is_replaced = True
        self.rt.turns.resume()

    def result(self, session: str, invocation_id: str) -> Any:
        """How a turn has ended, also one that an earlier deployment began."""
        return self.rt.attach(user_id=USER, session_id=session, invocation_id=invocation_id).result()

    def check(self, *sessions: str) -> None:
        """The logs are whole, and the sessions go on."""
        for session in sessions:
            log = stored(self.rt, session, USER)
            check_log(log)
            assert run_turn(self.rt, "hi", session, USER)[-1].text in ("hello", "new")
            assert [event.id for event in stored(self.rt, session, USER)[: len(log)]] == [event.id for event in log]


def check_log(log: list[Event]) -> None:
    """Every event once and in its place, and one answer to each call."""
    seqs = [event.seq for event in log]
    assert seqs == sorted(set(seqs))
    assert len({event.id for event in log}) == len(log)
    calls = Counter(call.id for event in log for call in event.function_calls())
    responses = Counter(response.id for event in log for response in event.function_responses())
    assert set(calls.values()) <= {1}
    assert calls == responses


pytestmark = pytest.mark.full

AWAY_S = 2.0
YOUNG_S = 0.001
"""An age that all has which was stored before."""

# What a turn is in the middle of: each begins it, and gives what has it end and looks at what has become of it.
End = Callable[[], None]


def running(scene: Scene) -> End:
    """A tool is called, and the program waits for the end."""
    turn = scene.rt.run(user_id=USER, session_id="s1", message="wait for it", on_leave="continue")
    thread = ThreadPoolExecutor(1)
    result = thread.submit(turn.result)
    scene.hall.came("it")

    def end() -> None:
        scene.hall.open()
        if scene.is_replaced:
            # Its program is told that the deployment has ended, or how the turn has.
            with suppress(Exception):
                result.result(TIMEOUT_S)
        assert (result.result(TIMEOUT_S) if not scene.is_replaced else scene.result("s1", turn.invocation_id)).text == "old"
        scene.check("s1")

    return end


def left(scene: Scene, message: str = "wait for it", came: str = "it") -> End:
    """A tool is called, and nobody follows the turn."""
    turn = scene.rt.run(user_id=USER, session_id="s1", message=message, on_leave="continue")
    invocation_id = turn.invocation_id
    scene.hall.came(came)
    turn.detach()

    def end() -> None:
        scene.hall.open()
        assert scene.result("s1", invocation_id).text == "old"
        scene.check("s1")

    return end


def asked_expert(scene: Scene) -> End:
    """An agent that is asked as a tool calls a tool."""
    return left(scene, "expert", "expert")


def answer(scene: Scene, session: str) -> None:
    """Answer the two calls at which a session waits, one after the other."""
    calls = scene.rt.pending(user_id=USER, session_id=session)
    assert sorted(call.args["what"] for call in calls) == ["one", "two"]
    first, second = (scene.rt.answer(call, {"answer": call.args["what"]}).result() for call in calls)
    assert isinstance(first.outcome, Paused)
    assert second.text == "old"


def paused(scene: Scene) -> End:
    """A turn is paused with two calls that have no answer."""
    scene.rt.run(user_id=USER, session_id="s1", message="ask").result()

    def end() -> None:
        answer(scene, "s1")
        scene.check("s1")

    return end


def forked(scene: Scene) -> End:
    """A paused turn waits in its session, and in a fork of it."""
    result = scene.rt.run(user_id=USER, session_id="s1", message="ask").result()
    scene.rt.sessions.fork(USER, "s1", result.invocation_id, "fork")

    def end() -> None:
        for session in ("fork", "s1"):
            answer(scene, session)
        scene.check("s1", "fork")

    return end


def mapped(scene: Scene) -> End:
    """A map is under way."""
    inputs = [f"wait for {number}" for number in range(3)]

    def texts(rt: Runtime) -> list[str | None]:
        found = list(rt.map(inputs, name="many", user_id=USER, in_order=True))
        return [each.result.text if each.result is not None else None for each in found]

    thread = ThreadPoolExecutor(1)
    results: Future[list[str | None]] = thread.submit(texts, scene.rt)
    scene.hall.came("0", "1", "2")

    def end() -> None:
        scene.hall.open()
        if scene.is_replaced:
            with suppress(Exception):
                results.result(TIMEOUT_S)
            # As a program does that is started again: what was made is repeated.
            assert texts(scene.rt) == ["old"] * 3
        else:
            assert results.result(TIMEOUT_S) == ["old"] * 3
        thread.shutdown()
        scene.check(*(each.id for each in scene.rt.sessions.list(USER) if each.id not in ("s1", "other")))

    return end


def scheduled(scene: Scene) -> End:
    """A schedule is due while its session is busy."""
    busy = left(scene)
    scene.rt.schedules.create("soon", user_id=USER, session_id="s1", message="hi", every=3_600)
    turn = scene.rt.schedules.run_now("soon", user_id=USER)
    invocation_id = turn.invocation_id
    turn.detach()

    def end() -> None:
        busy()
        if not scene.is_replaced:
            assert scene.result("s1", invocation_id).text in ("hello", "new")
            assert [event.text for event in stored(scene.rt, "s1", USER) if event.invocation_id == invocation_id][:1] == ["hi"]
        assert [each.name for each in scene.rt.schedules.list(USER)] == ["soon"]

    return end


def followed(scene: Scene) -> End:
    """A turn is followed over HTTP."""
    stack = ExitStack()
    url = stack.enter_context(serving(app_for(scene.rt)))
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        path = f"{url}/v1/apps/test/sessions/s1/turns?user={USER}"
        with httpx2.stream(
            "POST", path, json={"message": "wait for it"}, headers={"Accept": "text/event-stream"}, timeout=TIMEOUT_S
        ) as response:
            data = (line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: "))
            seen.extend(json.loads(each) for each in data)

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    scene.hall.came("it")

    def end() -> None:
        scene.hall.open()
        reader.join(TIMEOUT_S)
        stack.close()
        ids = [each["id"] for each in seen if "author" in each and not each.get("partial")]
        log = stored(scene.rt, "s1", USER)
        of_turn = [event.id for event in log if event.invocation_id == log[-1].invocation_id and event.author != "user"]
        assert ids == of_turn[: len(ids)]
        assert scene.is_replaced or ids == of_turn
        if not scene.is_replaced:
            scene.check("s1")

    return end


ROWS = (running, left, asked_expert, paused, forked, mapped, scheduled, followed)


# What is done meanwhile.


def user_is_moved(scene: Scene) -> None:
    """To the other store. While a turn of the user runs that is refused, and says so."""
    if scene.rt.turns.counts().open:
        with pytest.raises(RequestError, match="was not moved within"):
            scene.rt.users.move(USER, scene.urls[1], timeout=1.0)
        scene.hall.open()
        until(lambda: not scene.rt.turns.counts().open)
    assert scene.rt.users.move(USER, scene.urls[1]).now == 1


def store_is_away(scene: Scene) -> None:
    """Another process has locked the file, and gives it back while turns wait for it."""
    lock = SqliteLock(scene.files[0])
    with lock:
        scene.hall.open()
        released = threading.Timer(AWAY_S, lock.release)
        released.start()
        released.join()


def deployment_is_drained(scene: Scene) -> None:
    """It stops with turns left open, and the next one goes on with them."""
    scene.rt.drain(within_s=0.2)
    scene.replace()


def tree_is_updated(scene: Scene) -> None:
    """New turns get another tree."""
    scene.rt.update(desk(scene.hall, "new"))


def tree_is_updated_and_rolled_back(scene: Scene) -> None:
    """New turns get another tree, and then that of before."""
    scene.rt.update(desk(scene.hall, "new"))
    scene.rt.rollback()


def old_sessions_are_pruned(scene: Scene) -> None:
    """All that are at rest go, and no other."""
    scene.rt.sessions.prune(YOUNG_S)
    assert "other" not in [each.id for each in scene.rt.sessions.list(USER)]


def old_events_are_archived(scene: Scene) -> None:
    """All that are there."""
    scene.rt.sessions.archive(YOUNG_S)


def conversation_is_summarised(scene: Scene) -> None:
    """By the option of the deployment, before the next model call."""


def clock_is_set_back(scene: Scene) -> None:
    """Of each process in which a tool goes on."""
    scene.hall.set_clocks_back()


COLUMNS = (
    user_is_moved,
    store_is_away,
    deployment_is_drained,
    tree_is_updated,
    tree_is_updated_and_rolled_back,
    old_sessions_are_pruned,
    old_events_are_archived,
    conversation_is_summarised,
    clock_is_set_back,
)


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    """Whatever a test has set back is right again."""
    yield
    right_clock()


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server of these tests' own."""
    try:
        with short_folder() as folder, postgres_server(folder) as server:
            yield server
    except NoPostgresError as error:
        pytest.skip(str(error))


# An odd number, so that both engines are among those that the full set takes.
@pytest.mark.sampled(3, full=15)
@pytest.mark.parametrize("column", COLUMNS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("row", ROWS, ids=lambda each: each.__name__)
def test_two_things_meet(deploy: Deploy, tmp_path: Path, row: Callable[[Scene], End], column: Callable[[Scene], None]) -> None:
    options: dict[str, Any] = {}
    if column is conversation_is_summarised:
        options["events_compaction_config"] = EventsCompactionConfig(compaction_interval=2, overlap_size=0)
    scene = Scene(deploy, tmp_path, **options)
    with ExitStack() as stack:
        stack.callback(lambda: scene.rt.close())
        stack.callback(scene.hall.open)
        end = row(scene)
        column(scene)
        end()
        calls = Counter(scene.hall.calls())
        if not scene.is_replaced:
            assert set(calls.values()) <= {1}
        # One that is made again since its deployment has ended has the id that it had.
        assert len(calls) == len({name for name, _ in calls})
        if column is conversation_is_summarised:
            assert any(event.actions.compaction is not None for event in stored(scene.rt, "s1", USER)) or row is mapped


@pytest.mark.sampled(full=4)
@pytest.mark.parametrize("mode", ["immediate", "fast"])
@pytest.mark.parametrize("row", ROWS, ids=lambda each: each.__name__)
def test_a_database_is_stopped_and_started_meanwhile(
    local: Deploy, tmp_path: Path, database: PostgresServer, row: Callable[[Scene], End], mode: str
) -> None:
    scene = Scene(local, tmp_path, [own_tables(database.url)])
    with ExitStack() as stack:
        stack.callback(lambda: scene.rt.close())
        stack.callback(scene.hall.open)
        end = row(scene)
        database.stop(mode=mode)
        scene.hall.open()
        # Turns come to the end of their tools, and wait.
        time.sleep(AWAY_S)
        database.start()
        end()
        assert set(Counter(scene.hall.calls()).values()) <= {1}
