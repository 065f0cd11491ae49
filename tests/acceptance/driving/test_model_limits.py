"""Model limits: concurrent calls of all agents together, and retries out of a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from actors import LlmAgent, ModelLimits, ParallelAgent, RunConfig
from actors.errors import ModelServiceError, TurnCancelledError, TurnTimeoutError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.models.gemini import Gemini
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.servers.gemini_server import Failure, Gate, GeminiServer, Reply, Stream, text

MODEL = "gemini-2.5-flash"
SSE = RunConfig(streaming="sse")
AT_ONCE = {"Retry-After": "0"}
"""A service that says so need not be waited for."""


def gemini(server: GeminiServer) -> Gemini:
    return Gemini(model=MODEL, api_key="k", base_url=server.url, retry_initial_delay_s=0.01)


def limited(**limits: float) -> Settings:
    return Settings(model_limits={"gemini-*": ModelLimits.model_validate(limits)})


def counts(rt: Runtime) -> Mapping[str, int]:
    return rt.statistics().models.get(MODEL, {})


def wait_until(rt: Runtime, holds: Callable[[Mapping[str, int]], bool]) -> None:
    """Poll the model's statistics until the condition holds; the test's timeout ends it otherwise."""
    while not holds({"running": 0, "waiting": 0, **counts(rt)}):
        pass


def test_agents_in_several_processes_and_sessions_share_the_calls_that_may_be_made_at_once(deploy: Deploy) -> None:
    gate = Gate()
    with GeminiServer(lambda _: Stream([text("done")], gate)) as server:
        both = [LlmAgent(name=name, model=gemini(server)) for name in ("left", "right")]
        with deploy(ParallelAgent(name="root", sub_agents=both), settings=limited(max_concurrency=2)) as rt:
            turns = [rt.run(user_id="ada", session_id=f"s{number}", message="hi", run_config=SSE) for number in range(3)]
            for answered in range(4):
                wait_until(rt, lambda now, answered=answered: (now["running"], now["waiting"]) == (2, 4 - answered))  # type: ignore[misc]
                wait_until(rt, lambda _, answered=answered: len(server.requests) >= 2 + answered)  # type: ignore[misc]
                assert len(server.requests) == 2 + answered
                gate.release()
            gate.release(2)
            for turn in turns:
                whole = [event for event in turn.result().events if not event.partial]
                assert sorted(author_texts(whole)) == [("left", "done"), ("right", "done")]
            wait_until(rt, lambda now: now["running"] == 0)
            assert counts(rt) == {"granted": 6, "retried": 0, "retries_refused": 0, "running": 0, "waiting": 0}


def test_who_does_not_wait_any_more_leaves_the_line_and_waiting_counts_to_the_time_of_a_turn(local: Deploy) -> None:
    gate = Gate()
    with GeminiServer(lambda _: Stream([text("done")], gate)) as server:
        root = LlmAgent(name="root", model=gemini(server))
        with local(root, settings=limited(max_concurrency=1)) as rt:
            first = rt.run(user_id="ada", session_id="s1", message="hi", run_config=SSE)
            wait_until(rt, lambda now: now["running"] == 1)
            cancelled = rt.run(user_id="ada", session_id="s2", message="hi")
            last = rt.run(user_id="ada", session_id="s3", message="hi", run_config=SSE)
            wait_until(rt, lambda now: now["waiting"] == 2)
            cancelled.cancel()
            with pytest.raises(TurnTimeoutError):
                run_turn(rt, "hi", "s4", run_config=RunConfig(timeout=0.1))
            with pytest.raises(TurnCancelledError):
                cancelled.result()
            wait_until(rt, lambda now: now["waiting"] == 1)
            gate.release(2)
            assert first.result().text == last.result().text == "done"
            assert len(server.requests) == 2
            # Also a call that is under way ends with its turn.
            hanging = rt.run(user_id="ada", session_id="s1", message="hi", run_config=SSE)
            wait_until(rt, lambda now: now["running"] == 1)
            hanging.cancel()
            wait_until(rt, lambda now: now["running"] == 0)


def test_a_failure_that_may_pass_is_made_good_as_often_as_the_limits_say_and_not_by_the_model_as_well(
    local: Deploy,
) -> None:
    replies: list[Reply] = [Failure(429, headers=AT_ONCE), Failure(503, headers=AT_ONCE), text("at last")]
    replies += [Failure(503, headers=AT_ONCE)] * 3
    with GeminiServer([*replies, Failure(400), text("fine again")]) as server:
        root = LlmAgent(name="root", model=gemini(server))
        with local(root, settings=limited(max_retries=2)) as rt:
            assert author_texts(run_turn(rt, "hi")) == [("root", "at last")]
            with pytest.raises(ModelServiceError, match="503"):
                run_turn(rt, "hi")
            with pytest.raises(ModelServiceError, match="400"):
                run_turn(rt, "hi")
            assert author_texts(run_turn(rt, "hi")) == [("root", "fine again")]
            wait_until(rt, lambda now: now["running"] == 0)
            assert len(server.requests) == 8
            assert (counts(rt)["retried"], counts(rt)["retries_refused"]) == (4, 1)


def test_a_service_in_trouble_is_not_asked_again_and_again_by_everybody(local: Deploy) -> None:
    with GeminiServer(lambda _: Failure(503, headers=AT_ONCE)) as server:
        root = LlmAgent(name="root", model=gemini(server))
        with local(root, settings=limited(retry_ratio=0.2, retry_reserve=3)) as rt:
            for number in range(20):
                with pytest.raises(ModelServiceError):
                    run_turn(rt, "hi", f"s{number}")
            # Without a budget there would be 100.
            assert 20 + 3 <= len(server.requests) <= 20 + 3 + 4


def test_models_without_limits_are_asked_as_if_there_were_none(local: Deploy) -> None:
    with GeminiServer([Failure(429), text("at last")]) as server:
        settings = Settings(model_limits={"other-*": ModelLimits(max_concurrency=1)})
        with local(LlmAgent(name="root", model=gemini(server)), settings=settings) as rt:
            assert author_texts(run_turn(rt, "hi")) == [("root", "at last")]
            assert rt.statistics().models == {}


def test_model_objects_are_limited_by_their_name_or_that_of_their_class(local: Deploy) -> None:
    settings = Settings(model_limits={"ScriptedModel": ModelLimits(max_concurrency=1), "mine": ModelLimits()})
    model = ScriptedModel(["one"])
    with local(LlmAgent(name="root", model=model), settings=settings) as rt:
        run_turn(rt, "hi")
        assert rt.statistics().models["ScriptedModel"]["granted"] == 1


def test_limits_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYGROVE_MODEL_LIMITS", '{"gemini-2.5-flash": {"max_concurrency": 8, "requests_per_minute": 600}}')
    assert Settings().model_limits == {MODEL: ModelLimits(max_concurrency=8, requests_per_minute=600)}


def test_a_user_with_a_weight_has_so_many_calls_for_each_of_another_one(deploy: Deploy) -> None:
    gate = Gate()
    with GeminiServer(lambda _: Stream([text("done")], gate)) as server:
        root = LlmAgent(name="root", model=gemini(server))
        settings = Settings(model_limits={"gemini-*": ModelLimits(max_concurrency=1)}, user_weights={"desk-*": 2})
        with deploy(root, settings=settings) as rt:
            users = ["ada", "ada", "ada", "desk-1", "desk-1", "desk-1"]
            turns = []
            for number, user in enumerate(users):
                message = f"{user}, {number}"
                turns.append(rt.run(user_id=user, session_id=f"s{number}", message=message, run_config=SSE))
                wait_until(rt, lambda now, number=number: (now["running"], now["waiting"]) == (1, number))  # type: ignore[misc]
            gate.release(len(users))
            for turn in turns:
                turn.result()
        asked = [request.body["contents"][0]["parts"][0]["text"] for request in server.requests]
    assert asked == ["ada, 0", "ada, 1", "desk-1, 3", "desk-1, 4", "ada, 2", "desk-1, 5"]
