"""What agents and tools log, print and raise arrives in the program, with the names of the run, on both engines."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.errors import AgentFailedError, InvocationNotFoundError, PluginFailedError, RaygroveError
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.agents import failing_code
from tests.support.agents.failing_code import SECRET, OnMessage, failing_tree
from tests.support.agents.talking_code import talking_tree
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored

NAMES = logging.Formatter("%(levelname)s %(name)s %(agent)s %(user_id)s %(session_id)s %(message)s")


@pytest.fixture(autouse=True)
def quiet_library(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The program logs from INFO on, and of one library only errors."""
    caplog.set_level(logging.INFO)
    logging.getLogger("shop.library").setLevel(logging.ERROR)
    yield
    logging.getLogger("shop.library").setLevel(logging.NOTSET)


def of_shop(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [NAMES.format(record) for record in caplog.records if record.name.startswith("shop")]


def lines_once_printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Wait for what an agent has printed. Who joins a deployment gets lines that are still on their way."""
    ends_s = time.monotonic() + 20
    while not (lines := capsys.readouterr().out.splitlines()) and time.monotonic() < ends_s:
        time.sleep(0.01)
    return lines


def test_records_have_the_program_s_levels_and_the_names_of_the_run(
    deploy: Deploy, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with deploy(talking_tree()) as rt:
        run_turn(rt, "talk")
        (turn,) = {event.invocation_id for event in run_turn(rt, "talk_in_task", session_id="s2")}
    assert of_shop(caplog) == [
        "INFO shop.code desk ada s1 begin",
        "INFO shop.code desk ada s1 talk quietly",
        "INFO shop.code desk ada s2 begin",
        "INFO shop.code desk ada s2 talk_in_task quietly",
    ]
    last = [record for record in caplog.records if record.name == "shop.code"][-1]
    assert (last.invocation_id, last.order, last.funcName) == (turn, 42, "talk")  # type: ignore[attr-defined]
    named = "" if deploy.engine == "local" else "test.desk: "
    assert capsys.readouterr().out.splitlines() == [f"{named}talk aloud", f"{named}talk_in_task aloud"]


def test_failures_are_logged_with_their_tracebacks(deploy: Deploy, caplog: pytest.LogCaptureFixture) -> None:
    with deploy(failing_tree()) as rt:
        run_turn(rt, "task_tool")
        run_turn(rt, "thread_tool")
        with pytest.raises(Exception, match="custom"):
            run_turn(rt, "custom")
    failed = [record for record in caplog.records if record.levelno >= logging.WARNING and record.name.startswith("actors")]
    assert [(record.levelname, record.agent) for record in failed] == [  # type: ignore[attr-defined]
        ("WARNING", "desk"),
        ("WARNING", "desk"),
        ("ERROR", "custom"),
    ]
    texts = [logging.Formatter().format(record) for record in failed]
    assert [text.splitlines()[0].partition(" in turn")[0] for text in texts] == [
        "tool 'task_tool' of agent 'desk' failed",
        "tool 'thread_tool' of agent 'desk' failed",
        "agent 'custom' failed",
    ]
    assert ["in open_account\n    raise LookupError" in text for text in texts] == [True, True, True]
    assert SECRET not in "".join(texts)


def test_a_setting_decides_the_level_and_where_files_are(
    local_ray: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(log_level="WARNING", log_dir=tmp_path / "logs", log_format="%(levelname)s %(agent)s %(message)s")
    with Deploy("ray", tmp_path)(talking_tree(), settings=settings) as rt:
        run_turn(rt, "talk")
        agent = rt.statistics().agents["desk"]
        assert agent.log_file == str(tmp_path / "logs" / f"test.desk.{agent.pid}.log")
        printed = lines_once_printed(capsys)
        with Runtime.connect("test", settings=settings, logs=True) as joined:
            run_turn(joined, "talk")
            until(lambda: len(of_shop(caplog)) == 3)
    said = ["WARNING desk talk too much", "talk aloud"]
    assert Path(agent.log_file).read_text().splitlines() == said * 2
    # The joined program and the one that has started the deployment are the same process here: the second turn is told twice.
    assert of_shop(caplog) == ["WARNING shop.library desk ada s1 talk too much"] * 3
    assert [*printed, *capsys.readouterr().out.splitlines()] == ["test.desk: talk aloud"] * 3


def test_a_turn_has_the_lines_of_its_agents_and_of_no_other_turn(deploy: Deploy) -> None:
    with deploy(talking_tree()) as rt:
        first = run_turn(rt, "talk")[0].invocation_id
        second = run_turn(rt, "talk", session_id="s2")[0].invocation_id
        wanted = ["begin", "talk quietly"] + (["talk aloud"] if deploy.engine == "ray" else [])
        until(lambda: len(rt.turns.log_lines("ada", "s1", first)) == len(wanted))
        lines = rt.turns.log_lines("ada", "s1", first)
        assert sorted(line.text for line in lines) == sorted(wanted)
        assert {(line.agent, line.level) for line in lines} == {("desk", "INFO")}
        assert {line.logger for line in lines} <= {"shop.code", "stdout"}
        assert [line.at_s for line in lines] == sorted(line.at_s for line in lines)
        assert rt.turns.log_lines("ada", "s2", second) != lines
        # The same turn's id in another session is another turn.
        with pytest.raises(InvocationNotFoundError):
            rt.turns.log_lines("ada", "s2", first)


def test_the_lines_of_a_failed_turn_have_its_traceback(deploy: Deploy) -> None:
    with deploy(failing_tree()) as rt:
        with pytest.raises(Exception, match="custom"):
            run_turn(rt, "custom")
        [turn] = rt.turns.list("ada", "s1")
        until(lambda: any(line.details for line in rt.turns.log_lines("ada", "s1", turn.invocation_id)))
        [line] = [line for line in rt.turns.log_lines("ada", "s1", turn.invocation_id) if line.details]
        assert (line.agent, line.level) == ("custom", "ERROR")
        assert "in open_account\n    raise LookupError" in line.details


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


PROGRAM = """
import logging
import sys

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime

if sys.argv[2] == "configured":
    logging.basicConfig(format="mine: %(message)s")

log = logging.getLogger("shop.orders")


@tool
def look_up(order: str) -> str:
    log.info("looking up %s", order)
    log.warning("order %s is late", order)
    raise LookupError("no such order")


model = PatternModel([("order", {"call": "look_up", "args": {"order": "42"}})])
root = LlmAgent(name="desk", model=model, tools=[look_up])
log.warning("before")
# Two on the local engine: a line is printed once, however many handlers keep it.
with Runtime(root, app_name="desk", engine=sys.argv[1]) as rt, Runtime(root, app_name="other", engine="local"):
    log.warning("within")
    logging.getLogger("raygrove.events").warning("an event")
    rt.run(user_id="ada", session_id="s1", message="Where is my order?").result()
log.warning("after")
"""


def printed(folder: Path, engine: str, how: str) -> list[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", engine, how]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert "looking up" not in done.stderr
    return [line for line in done.stderr.splitlines() if any(each in line for each in SENTENCES)]


SENTENCES = ("before", "within", "an event", "order 42 is late", "tool 'look_up' of agent 'desk' failed", "after")


@pytest.mark.parametrize("how", ["plain", "configured"])
def test_warnings_of_the_program_and_its_tools_are_printed_once(tmp_path: Path, engine: str, how: str) -> None:
    said = printed(tmp_path, engine, how)
    assert [each for line in said for each in SENTENCES if each in line] == list(SENTENCES), said
    begins = "mine: " if how == "configured" else ""
    assert [said[0], said[-1]] == [f"{begins}before", f"{begins}after"]
