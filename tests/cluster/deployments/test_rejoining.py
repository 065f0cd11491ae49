"""A program that has joined a deployment, and a server, go on with the one that is started in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from actors import LlmAgent
from actors.errors import DeploymentNotFoundError, TurnCancelledError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.frontends.web.readiness import Readiness
from tests.support.agents.conversation_tools import forever
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.servers.web_server import TIMEOUT_S, serving_process

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(3, of="module")]

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
