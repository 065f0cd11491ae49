"""`rt.limits`: how much is asked of models at most is seen and changed while a deployment runs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import LlmAgent, ModelLimits, RunConfig
from actors.errors import ActorLostError, DefinitionError, RequestError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from runtime.models.gemini import Gemini
from runtime.settings import Settings
from runtime.web import Principal, StaticTokens, app_for
from tests.support.console import have_joined, invoke
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.gemini_server import Gate, GeminiServer, Stream, text
from tests.support.servers.web_server import TIMEOUT_S, serving

pytestmark = pytest.mark.sampled(2, of="module")

DESK, BOSS = "desk-token-0123456789", "boss-token-0123456789"
ONE = Settings(model_limits={"gemini-*": ModelLimits(max_concurrency=1, max_retries=2), "other": ModelLimits()})


class Service:
    """A service of models whose calls wait at a gate."""

    def __init__(self, server: GeminiServer, gate: Gate) -> None:
        self.server, self.gate = server, gate
        self.root = LlmAgent(name="root", model=Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url))

    def begin(self, rt: Runtime, count: int) -> list[Turn]:
        """Begin turns, each in a session of its own."""
        streams = RunConfig(streaming="sse")
        return [rt.run(user_id="ada", session_id=f"s{number}", message="hi", run_config=streams) for number in range(count)]


@pytest.fixture
def service() -> Iterator[Service]:
    gate = Gate()
    with GeminiServer(lambda _: Stream([text("done")], gate)) as server:
        yield Service(server, gate)
        gate.release(9)


@pytest.fixture
def rt(local: Deploy) -> Iterator[Runtime]:
    with local(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="desk", settings=ONE) as made:
        yield made


def told(rt: Runtime) -> dict[str, tuple[int | None, bool, int, int]]:
    return {each.name: (each.max_concurrency, each.changed, each.running, each.waiting) for each in rt.limits.list()}


def test_calls_that_wait_begin_when_their_model_gets_a_higher_limit(local: Deploy, service: Service) -> None:
    with local(service.root, settings=ONE) as rt:
        assert told(rt) == {"gemini-*": (1, False, 0, 0), "other": (None, False, 0, 0)}
        turns = service.begin(rt, 3)
        until(lambda: told(rt)["gemini-*"] == (1, False, 1, 2))
        changed = rt.limits.set("gemini-2.5-flash", max_concurrency=2)
        assert (changed.max_concurrency, changed.max_retries, changed.changed) == (2, 2, True)
        until(lambda: told(rt)["gemini-2.5-flash"] == (2, True, 2, 1))
        assert told(rt)["gemini-*"] == (1, False, 0, 0)
        assert rt.limits.set("gemini-2.5-flash", max_concurrency=None).max_concurrency is None
        until(lambda: told(rt)["gemini-2.5-flash"] == (None, True, 3, 0))
        service.gate.release(3)
        assert [turn.result().text for turn in turns] == ["done"] * 3
        until(lambda: told(rt)["gemini-2.5-flash"] == (None, True, 0, 0))
        assert rt.limits.reset("gemini-2.5-flash") is None
        assert told(rt) == {"gemini-*": (1, False, 0, 0), "other": (None, False, 0, 0)}


@pytest.fixture
def ray(local_ray: str, tmp_path: Path) -> Deploy:
    """Makes a Runtime on Ray."""
    return Deploy("ray", tmp_path)


@pytest.mark.full
def test_a_changed_limit_outlives_the_process_that_goes_by_it_and_not_the_deployment(ray: Deploy, service: Service) -> None:
    with ray(service.root, settings=ONE) as rt:
        rt.limits.set("gemini-*", max_concurrency=2)
        limiter = rt.statistics().limiter
        assert limiter is not None
        os.kill(limiter.pid, signal.SIGKILL)

        def is_back() -> bool:
            with suppress(ActorLostError):
                again = rt.statistics().limiter
                return again is not None and again.pid != limiter.pid
            return False

        until(is_back)
        assert told(rt)["gemini-*"] == (2, True, 0, 0)
        turns = service.begin(rt, 3)
        until(lambda: told(rt)["gemini-*"] == (2, True, 2, 1))
        service.gate.release(3)
        assert [turn.result().text for turn in turns] == ["done"] * 3
    with ray(service.root, settings=ONE) as rt:
        assert told(rt)["gemini-*"] == (1, False, 0, 0)


def test_what_cannot_be_limited_is_refused_by_name(rt: Runtime) -> None:
    with pytest.raises(
        RequestError, match=r"model 'othr' had no limits .* Did you mean 'other'\? It has limits for: gemini-\*, other"
    ):
        rt.limits.set("othr", max_concurrency=1)
    with pytest.raises(RequestError, match=r"model 'gem\*' had no limits"):
        rt.limits.set("gem*", max_concurrency=1)
    with pytest.raises(DefinitionError, match="max_concurrency"):
        rt.limits.set("other", max_concurrency=0)
    with pytest.raises(DefinitionError, match="max_calls"):
        rt.limits.set("other", max_calls=3)
    with pytest.raises(RequestError, match="give what to change: max_concurrency"):
        rt.limits.set("other")
    assert [each.changed for each in rt.limits.list()] == [False, False]


def test_a_deployment_without_limits_says_how_it_would_have_some(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=PatternModel([], default="ok"))) as rt:
        run_turn(rt, "hi")
        assert rt.limits.list() == []
        with pytest.raises(RequestError, match="start it with model_limits"):
            rt.limits.set("PatternModel", max_concurrency=1)


def test_administrators_see_and_change_limits_over_http(rt: Runtime) -> None:
    tokens = StaticTokens({DESK: Principal(), BOSS: Principal(is_admin=True)})
    with serving(app_for(rt, auth=tokens)) as url:

        def ask(method: str, token: str = BOSS, **body: Any) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx2.request(method, f"{url}/v1/apps/desk/limits", headers=headers, timeout=TIMEOUT_S, json=body or None)

        assert ask("GET", DESK).status_code == ask("PATCH", DESK, model="other", maxConcurrency=1).status_code == 403
        assert [each["name"] for each in ask("GET").json()["limits"]] == ["gemini-*", "other"]
        [_, first] = ask("PATCH", model="other", maxConcurrency=3, tokensPerMinute=None).json()["limits"]
        assert (first["name"], first["maxConcurrency"], first["tokensPerMinute"], first["changed"]) == ("other", 3, None, True)
        [first, second] = ask("PATCH", model="other", reset=True).json()["limits"]
        assert (first["name"], second["changed"]) == ("gemini-*", False)
        [_, second] = ask("PATCH", model="other", reset=True, maxConcurrency=1.0).json()["limits"]
        assert (second["maxConcurrency"], second["changed"]) == (1, True)
        assert ask("PATCH", model="other").json()["limits"][1] == second
        assert [ask("PATCH", model="other", maxConcurrency=each).status_code for each in (0, 0.5, "1")] == [400] * 3
        unknown = ask("PATCH", model="nothing", maxConcurrency=1)
        assert (unknown.status_code, "had no limits" in unknown.text) == (404, True)


def test_limits_are_seen_and_changed_from_a_shell(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    have_joined(monkeypatch, rt)

    def limits(*arguments: str) -> str:
        return invoke("limits", "desk", *arguments).output

    def rows(output: str) -> list[list[str]]:
        return [line.split("\t") for line in output.splitlines()][1:]

    settings = [["gemini-*", "1", "-", "-", "settings", "0", "0"], ["other", "-", "-", "-", "settings", "0", "0"]]
    assert rows(limits()) == settings
    changed = rows(limits("other", "--concurrency", "4", "--per-minute", "60", "--tokens-per-minute", "9000"))
    assert changed[1] == ["other", "4", "60", "9000", "operator", "0", "0"]
    assert json.loads(limits("other", "--per-minute", "none", "--json").splitlines()[1])["requestsPerMinute"] is None
    assert rows(limits("other", "--reset")) == settings
    assert rows(limits("other", "--concurrency", "4", "--reset"))[1][1:5] == ["4", "-", "-", "operator"]
    assert "give MODEL" in limits("--reset")
    assert "is a number" in limits("other", "--concurrency", "many")
