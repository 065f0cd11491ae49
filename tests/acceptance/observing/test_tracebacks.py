"""Where users' code failed: in the log, in the error that the program gets, and in the log of the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.errors import AgentFailedError, PluginFailedError, RaygroveError
from runtime.driver.runtime import Runtime
from tests.support.agents import failing_code
from tests.support.agents.failing_code import SECRET, OnMessage, failing_tree
from tests.support.runtimes import Deploy, run_turn, stored

RAISED = 'in open_account\n    raise LookupError(f"no account {number}")'


@pytest.fixture
def rt(deploy: Deploy) -> Iterator[Runtime]:
    with deploy(failing_tree(), plugins=[OnMessage(name="on-message")]) as runtime:
        yield runtime


def failure_of(rt: Runtime, message: str) -> RaygroveError:
    with pytest.raises(RaygroveError) as failed:
        run_turn(rt, message, session_id=message)
    return failed.value


def test_it_is_in_the_event_and_with_the_error_wherever_code_fails(rt: Runtime) -> None:
    for name, agent in [("model", "model"), ("callback", "callback"), ("custom", "custom"), ("parallel", "left")]:
        error = failure_of(rt, name)
        assert isinstance(error, AgentFailedError)
        assert error.args[0] == agent
        (failed,) = [event for event in stored(rt, name) if event.error_code and event.author == agent]
        assert error.__notes__ == [error.remote_traceback] == [failed.error_traceback]
        assert RAISED in error.remote_traceback
        assert failing_code.__file__ in error.remote_traceback
        assert SECRET not in error.remote_traceback
        assert "/actors/" not in error.remote_traceback
    assert "was the direct cause" in failure_of(rt, "custom once more").remote_traceback


def test_it_goes_with_the_decisions_of_supervisors(rt: Runtime) -> None:
    failure_of(rt, "supervised")
    decisions = [event.custom_metadata["supervision"] for event in stored(rt, "supervised") if event.custom_metadata]
    assert [RAISED in decision["error_traceback"] for decision in decisions] == [True, True]


def test_it_comes_from_plugins_before_the_turn_is_open(rt: Runtime) -> None:
    error = failure_of(rt, "plugin")
    assert isinstance(error, PluginFailedError)
    assert RAISED in error.remote_traceback
    assert rt.sessions.get("ada", "plugin") is None


def test_models_do_not_see_it(rt: Runtime) -> None:
    for number, name in enumerate(("thread_tool", "loop_tool", "task_tool"), start=1):
        events = run_turn(rt, name, session_id=name)
        (response,) = [response.response for event in events for response in event.function_responses()]
        assert response == {"error": f"LookupError: no account {number}"}
