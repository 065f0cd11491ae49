"""Several drivers with one deployment, each joined by `Runtime.connect`.

A program that has joined a deployment, and a server, go on with the one that is started in its place.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx2
import pytest
import ray

from actors import LlmAgent, Part, RunConfig
from actors.errors import (
    DeploymentNotFoundError,
    InvocationNotFoundError,
    RuntimeClosedError,
    SessionBusyError,
    TooLargeError,
    TurnCancelledError,
)
from actors.messages.event import USER
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web.monitoring import Readiness
from runtime.settings import Settings
from tests.support.agents.conversation_tools import archive, forever
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.servers.web_server import TIMEOUT_S, serving_process

DRIVERS = 5
NAMESPACE = f"{Settings().namespace}, far away"
"""Another one than that of the tests' Ray: a deployment's actors find each other wherever they are."""

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(3, of="module")]


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings(namespace=NAMESPACE, max_message_bytes=100_000)


@pytest.fixture(scope="module")
def drivers(local_ray: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Runtime]]:
    """Five of them, none of which has started the deployment."""
    model = PatternModel(
        [("hang", {"call": "forever"}), ("keep", {"call": "archive", "args": {"name": "n", "text": "t"}}), ("tool:", "done")],
        default="hello",
    )
    root = LlmAgent(name="root", model=model, tools=[forever, archive])
    deploy = Deploy("ray", tmp_path_factory.mktemp("joined"))
    with deploy(root, app_name="joined", settings=settings), ExitStack() as stack:
        found = Settings(namespace=NAMESPACE)
        yield [stack.enter_context(Runtime.connect("joined", settings=found)) for _ in range(DRIVERS)]


def test_turns_are_seen_and_followed_by_every_driver(drivers: list[Runtime]) -> None:
    first, second = drivers[:2]
    first.sessions.create("ada", "seen")
    turn = first.run(user_id="ada", session_id="seen", message="hang")
    following = iter(second.sessions.tail("ada", "seen"))
    assert next(following).text == "hang"
    call = next(call for event in following for call in event.function_calls())
    assert second.turns.get("ada", "seen", turn.invocation_id).state == "running"
    assert [info.invocation_id for info in second.turns.list("ada", "seen", "running")] == [turn.invocation_id]
    for _ in second.attach(user_id="ada", session_id="seen", invocation_id=turn.invocation_id):
        break
    # Leaving it has cancelled nothing: the call has no answer yet.
    assert [event.seq for event in second.sessions.events("ada", "seen", newest_first=True)] == [2, 1]
    turn.cancel()
    assert [response.id for response in next(following).function_responses()] == [call.id]
    assert second.turns.get("ada", "seen", turn.invocation_id).state == "cancelled"


def test_fifty_turns_at_once_in_one_session_are_run_one_after_the_other(drivers: list[Runtime]) -> None:
    together = threading.Barrier(DRIVERS)

    def drive(number: int) -> dict[str, list[tuple[str, str]]]:
        together.wait()
        turns = {
            f"{number}/{index}": drivers[number].run(user_id="ada", session_id="crowd", message=f"{number}/{index}")
            for index in range(50 // DRIVERS)
        }
        return {message: author_texts(list(turn)) for message, turn in turns.items()}

    with ThreadPoolExecutor(DRIVERS) as threads:
        heard = {message: events for each in threads.map(drive, range(DRIVERS)) for message, events in each.items()}
    assert len(heard) == 50
    assert set(map(tuple, heard.values())) == {(("root", "hello"),)}
    log = stored(drivers[0], "crowd")
    assert [event.seq for event in log] == list(range(1, 101))
    assert [event.author for event in log] == [USER, "root"] * 50
    assert sorted(event.text for event in log if event.author == USER) == sorted(heard)
    assert len([invocation_id for invocation_id, _ in groupby(event.invocation_id for event in log)]) == 50


def test_a_turn_of_one_driver_refuses_waits_for_or_is_interrupted_by_those_of_others(drivers: list[Runtime]) -> None:
    first, second, third, *_ = drivers
    where: dict[str, Any] = {"user_id": "ada", "session_id": "shared"}
    hanging = first.run(**where, message="hang")
    events = iter(hanging)
    assert any(next(events).function_calls())
    with pytest.raises(SessionBusyError, match=hanging.invocation_id):
        second.run(**where, message="no", run_config=RunConfig(on_concurrent_turn="reject")).result()
    waiting = third.run(**where, message="later")
    assert second.run(**where, message="now", run_config=RunConfig(on_concurrent_turn="interrupt")).result().text == "hello"
    with pytest.raises(TurnCancelledError, match=hanging.invocation_id):
        list(events)
    assert waiting.result().text == "hello"
    answers = [response.response for event in stored(first, "shared") for response in event.function_responses()]
    assert answers == [{"error": "cancelled"}]


def test_another_driver_can_follow_a_turn_and_cancel_it(drivers: list[Runtime]) -> None:
    first, second, *_ = drivers
    turn = first.run(user_id="ada", session_id="followed", message="hang")
    events = iter(turn)
    call = next(events)
    followed = second.attach(user_id="ada", session_id="followed", invocation_id=turn.invocation_id)
    following = iter(followed)
    assert next(following) == call
    followed.cancel()
    for each in (events, following):
        with pytest.raises(TurnCancelledError):
            list(each)
    last = stored(second, "followed")[-1]
    assert [response.response for response in last.function_responses()] == [{"error": "cancelled"}]
    with pytest.raises(InvocationNotFoundError):
        second.attach(user_id="ada", session_id="followed", invocation_id="none").result()


def test_a_joined_runtime_has_all_that_a_runtime_has(drivers: list[Runtime]) -> None:
    first, second, *_ = drivers
    assert author_texts(run_turn(first, "keep this", session_id="kept"))[-1] == ("root", "done")
    assert second.artifacts.load("ada", "kept", "n") == Part(text="t")
    second.memory.add_session("ada", "kept")
    assert [entry.text for entry in first.memory.search("ada", "keep")] == ["keep this"]
    assert "kept" in [session.id for session in second.sessions.list("ada")]
    assert second.statistics().agents["root"].actor.startswith("joined/host/")
    # The deployment's limit, not that of this driver's settings.
    with pytest.raises(TooLargeError, match="RAYGROVE_MAX_MESSAGE_BYTES allows 100000"):
        run_turn(second, "x" * 200_000)


async def test_it_works_on_an_event_loop_and_leaving_it_stops_nothing(drivers: list[Runtime]) -> None:
    first, *_ = drivers
    turn = first.run(user_id="ada", session_id="async", message="hang")
    events = iter(turn)
    assert any(next(events).function_calls())
    joined = Runtime.connect("joined", settings=Settings(namespace=NAMESPACE))
    with pytest.raises(RuntimeClosedError):
        joined.artifacts.list_keys("ada", "async")
    async with joined as rt:
        assert (await rt.run(user_id="ada", session_id="other", message="hi")).text == "hello"
        own = rt.run(user_id="ada", session_id="async", message="in line")
    with pytest.raises(RuntimeClosedError):
        await own
    with pytest.raises(RuntimeClosedError):
        joined.run(user_id="ada", session_id="async", message="hi")
    turn.cancel()
    # The one in line was not lost with the driver that had sent it.
    again = first.attach(user_id="ada", session_id="async", invocation_id=own.invocation_id)
    assert (await again).text == "hello"


def test_an_app_that_is_not_there_is_named_with_those_that_are(drivers: list[Runtime], tmp_path: Path) -> None:
    with pytest.raises(
        DeploymentNotFoundError, match=r"'joint' is not deployed in Ray namespace '.*, far away'.*joined.*Did you mean"
    ):
        Runtime.connect("joint", settings=Settings(namespace=NAMESPACE)).start()
    with pytest.raises(DeploymentNotFoundError, match=r"It is in namespace '.*, far away': give settings=Settings\(namespace="):
        Runtime.connect("joined").start()
    with pytest.raises(DeploymentNotFoundError, match="No app is"):
        Runtime.connect("nobody", settings=Settings(namespace="nowhere")).start()


@pytest.mark.parametrize("joined", [False, True])
def test_a_runtime_that_is_passed_to_a_task_joins_there(
    local_ray: str, settings: Settings, tmp_path: Path, *, joined: bool
) -> None:
    @ray.remote(num_cpus=0)
    def ask(rt: Runtime) -> str:
        with rt:
            return rt.run(user_id="ada", session_id="task", message="hi").result().text

    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    with Deploy("ray", tmp_path)(root, app_name="passed", settings=settings) as started, ExitStack() as stack:
        passed = stack.enter_context(Runtime.connect("passed", settings=settings)) if joined else started
        assert ray.get(ask.remote(passed)) == "hello"
        assert [event.text for event in started.sessions.events("ada", "task")] == ["hi", "hello"]


APP = "replaced"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Runtime]:
    """Starts a deployment whose agent has a name, over the store of the test."""
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    monkeypatch.setenv("RAYGROVE_STOP_TIMEOUT_S", "5")

    def start(name: str) -> Runtime:
        model = PatternModel([("hang", {"call": "forever"})], default="here I am")
        return Deploy("ray", tmp_path)(LlmAgent(name=name, model=model, tools=[forever]), app_name=APP)

    return start


def test_a_program_that_has_joined_goes_on_with_the_deployment_that_is_started_next(
    started: Callable[[str], Runtime], local_ray: str
) -> None:
    with started("old"):
        joined = Runtime.connect(APP, address=local_ray)
        joined.start()
        assert author_texts(run_turn(joined, "one")) == [("old", "here I am")]
        assert joined.tree().name == "old"
        hanging = joined.run(user_id="ada", session_id="s2", message="hang")
        next(event for event in hanging for _ in event.function_calls())
    for _ in range(2):
        with pytest.raises(DeploymentNotFoundError):
            run_turn(joined, "two", invocation_id="e-two")
        with pytest.raises(DeploymentNotFoundError):
            joined.sessions.list()
    # It was told of its end, or that its deployment has ended, by which of them came first.
    with pytest.raises((DeploymentNotFoundError, TurnCancelledError)):
        hanging.result()
    with started("new"):
        assert author_texts(run_turn(joined, "two", invocation_id="e-two")) == [("new", "here I am")]
        assert joined.tree().name == "new"
        found = joined.sessions.get("ada", "s1")
        assert found is not None
        assert [text for _, text in author_texts(list(found.events))] == ["one", "here I am", "two", "here I am"]
        joined.close()


def test_a_turn_that_comes_while_a_deployment_ends_is_told_so_and_is_begun_by_the_next_one(
    started: Callable[[str], Runtime], local_ray: str
) -> None:
    with started("old"):
        joined = Runtime.connect(APP, address=local_ray)
        joined.start()
        assert author_texts(run_turn(joined, "one")) == [("old", "here I am")]
        # As in the midst of `stop`: the Session actor has stopped, and no process has ended.
        joined._client.run(joined._client.engine.session.stop())
        late = joined.run(user_id="ada", session_id="s1", message="two", invocation_id="e-two")
    with pytest.raises(DeploymentNotFoundError):
        late.result()
    with started("new"):
        assert author_texts(run_turn(joined, "two", invocation_id="e-two")) == [("new", "here I am")]
        joined.close()


@pytest.mark.full
def test_the_first_probe_after_the_next_start_finds_the_server_ready(started: Callable[[str], Runtime], local_ray: str) -> None:
    with started("old"):
        joined = Runtime.connect(APP, address=local_ray)
        joined.start()
        assert joined.statistics().runner.pid
    with started("new"):
        assert asyncio.run(Readiness({APP: joined}).faults()) == {}
    joined.close()


def test_a_server_that_has_joined_says_whether_it_is_ready_and_goes_on(started: Callable[[str], Runtime], local_ray: str) -> None:
    turns = f"/v1/apps/{APP}/sessions/s1/turns?user=ada"

    def asked(message: str) -> httpx2.Response:
        return httpx2.post(server + turns, json={"message": message}, timeout=TIMEOUT_S)

    def is_ready() -> bool:
        return httpx2.get(f"{server}/readyz", timeout=TIMEOUT_S).status_code == 200

    with started("old"):
        serving = serving_process(APP, local_ray)
        _, server = serving.__enter__()
        try:
            assert asked("one").status_code == 200
            assert is_ready()
        except BaseException:
            serving.__exit__(None, None, None)
            raise
    try:
        until(lambda: not is_ready())
        refused = asked("two")
        assert (refused.status_code, refused.json()["type"]) == (503, "DeploymentNotFoundError")
        assert httpx2.get(f"{server}/healthz", timeout=TIMEOUT_S).status_code == 200
        with started("new"):
            until(is_ready)
            assert asked("two").status_code == 200
    finally:
        serving.__exit__(None, None, None)
