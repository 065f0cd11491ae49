"""What the fixtures and markers of the pytest plugin do on the local engine, and what it costs projects that use none of them."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Run

pytestmark = pytest.mark.sampled(3, of="module")

pytest_plugins = ["pytester"]

TREE = """
import asyncio, threading, subprocess, sys, time
import pytest
from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime.testing import Called, Said, trajectory

@tool
def start(what: str) -> dict:
    "Start something that goes on."
    if what == "thread":
        threading.Thread(target=wait, name="forgotten").start()
    if what == "process":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(9)"])
    if what == "wait":
        wait()
    return {}

@tool
async def sleep() -> dict:
    "Sleep for an hour."
    await asyncio.sleep(3600)
    return {}

@tool
async def hold_up() -> dict:
    "Hold up the event loop."
    wait()
    return {}

def wait():
    time.sleep(9)

def say(runtime, message, session_id="s1"):
    return runtime.run(user_id="ada", session_id=session_id, message=message)
"""


def test_runtimes_live_as_long_as_they_should_and_models_say_what_each_test_wants(run: Run) -> None:
    done = run(
        TREE
        + """
SEEN = []

@pytest.fixture(scope="module")
def root_agent(scripted_model):
    return LlmAgent(name="a", model=scripted_model, tools=[start])

def test_one(runtime, script, tmp_path):
    model = script("one", "two")
    SEEN.append(runtime)
    assert say(runtime, "x").result().text == "one"
    assert (tmp_path / "sessions.db").exists()
    assert (model.remaining, len(model.requests)) == (1, 1)

def test_another_one_has_a_runtime_of_its_own(runtime, scripted_model, script):
    assert runtime is not SEEN[0]
    assert runtime.sessions.list() == []
    assert (scripted_model.remaining, list(scripted_model.requests)) == (0, [])

def test_a_second_runtime_finds_what_the_first_has_left(start_runtime, root_agent, script):
    script("one", "two")
    first = start_runtime(root_agent, app_name="twice")
    say(first, "x").result()
    first.close()
    assert len(start_runtime(root_agent, app_name="twice").sessions.get("ada", "s1").events) == 2

@pytest.mark.patterns(("order", {"call": "start", "args": {"what": "nothing"}}), default="Hm?")
def test_patterns(start_runtime, pattern_model):
    rt = start_runtime(LlmAgent(name="b", model=pattern_model, tools=[start]))
    trajectory(say(rt, "my order")).assert_exactly(Called("b", "start"), Said("b"))
    assert say(rt, "x", "s2").result().text == "Hm?"

@pytest.mark.raygrove(settings={"max_message_bytes": 70_000}, app_name="mine")
def test_options_reach_the_runtime(runtime, script):
    from actors.errors import TooLargeError
    assert runtime.app_name == "mine"
    with pytest.raises(TooLargeError):
        say(runtime, "x" * 80_000).result()

@pytest.mark.raygrove(scope="module")
class TestShared:
    def test_one(self, runtime, script):
        script("one")
        say(runtime, "x").result()
        SEEN.append(runtime)

    def test_two(self, runtime, script):
        script("two")
        assert runtime is SEEN[-1]
        assert say(runtime, "x").result().text == "two"

@tool
async def nap() -> dict:
    "Sleep for an hour."
    import asyncio
    await asyncio.sleep(3600)
    return {}

@pytest.mark.patterns(("nap", {"call": "nap"}))
def test_the_clock_stands_still(start_runtime, frozen_clock, pattern_model):
    rt = start_runtime(LlmAgent(name="b", model=pattern_model, tools=[nap]))
    turn = say(rt, "nap")
    frozen_clock.advance(3600)
    trajectory(turn).assert_in_order(Called("b", "nap", result={}))

async def test_on_an_event_loop(runtime, script):
    script("one")
    assert trajectory(await say(runtime, "x")).agents == ["a"]
""",
        "-o",
        "asyncio_mode=auto",
    )
    done.assert_outcomes(passed=9)


@pytest.mark.full
def test_what_is_left_behind_and_what_hangs_fails_its_test_with_what_it_is(run: Run) -> None:
    done = run(
        TREE
        + """
@pytest.fixture
def root_agent():
    calls = [(what, {"call": "start", "args": {"what": what}}) for what in ("thread", "process", "wait")]
    calls += [("hold", {"call": "hold_up"}), ("sleep", {"call": "sleep"})]
    return LlmAgent(name="a", model=PatternModel(calls), tools=[start, hold_up, sleep])

def test_a_thread_is_left(runtime):
    say(runtime, "thread").result()

@pytest.mark.raygrove(leaks=["forgott*"])
def test_a_thread_may_stay(runtime):
    say(runtime, "thread").result()

@pytest.mark.raygrove(leaks=False)
def test_nothing_is_looked_for(runtime):
    say(runtime, "process").result()

def test_a_process_is_left(runtime):
    say(runtime, "process").result()

@pytest.mark.raygrove(timeout=2, leaks=False)
def test_a_tool_hangs(runtime):
    say(runtime, "wait").result()

@pytest.mark.raygrove(timeout=2, leaks=False)
async def test_a_tool_hangs_on_an_event_loop(runtime):
    await say(runtime, "wait")

@pytest.mark.raygrove(timeout=2, leaks=False)
def test_the_event_loop_is_held_up(runtime):
    say(runtime, "hold").result()

@pytest.mark.raygrove(timeout=2, leaks=False)
def test_the_clock_is_not_moved(runtime, frozen_clock):
    say(runtime, "sleep").result()

def test_goes_on_afterwards(runtime):
    say(runtime, "x").result()
""",
        "-o",
        "asyncio_mode=auto",
    )
    done.assert_outcomes(passed=5, failed=4, errors=2)
    done.stdout.re_match_lines_random(
        [
            r"E +thread forgotten, in wait \(.*test_project.py:\d+\)",
            r"E +process \d+ \(.*time.sleep\(9\)\): a child of this one",
            r"E +Failed: the test took longer than 2 s \(timeout of the marker raygrove, or raygrove_timeout\)",
            r"E +turn e-\S+ of user 'ada', session 's1': running for \d+\.\d s, epoch 1",
            r"E +last event: 2, of a, \d+\.\d s ago",
            r"E +a calls start\(what='wait'\) -> no answer",
            r"E +waits for the tool: start call-\w+, called by a \d+\.\d s ago",
            r"E +it does not answer: not within 3 s",
            r"E +its event loop is held up in thread raygrove-test:",
            r"E +wait\(\)",
            r"E +frozen_clock stands still: what waits goes on when the test calls .*",
        ]
    )


def test_what_is_wrong_is_named(run: Run) -> None:
    done = run(
        TREE
        + """
def test_no_tree(runtime):
    pass

@pytest.mark.raygrove(scope="module")
def test_clock_of_a_module(frozen_clock, runtime):
    pass

@pytest.mark.raygrove(timout=3)
def test_unknown_option(start_runtime):
    start_runtime(LlmAgent(name="a", model=PatternModel([])))
"""
    )
    done.assert_outcomes(errors=2, failed=1)
    done.stdout.fnmatch_lines_random(
        [
            "the fixture `runtime` needs a tree: define a fixture `root_agent` *",
            "frozen_clock is of one test: *",
            "E*a Runtime has no option 'timout'. Did you mean 'timeout'? *",
        ]
    )


WRONG = {
    "engines=['cloud']": "engines are 'local', 'ray', or a list of both, not ['cloud']",
    "scope='session'": "scope is 'function' or 'module', not 'session'",
    "timeout='soon'": "timeout is a number of seconds, or 0 for any time, not 'soon'",
    "leaks='grpc'": "leaks is True, False, or a list of threads that may stay, such as ['grpc*'], not 'grpc'",
    "'ray'": "the marker raygrove takes its options by name, not 'ray': engines=['local', 'ray']",
}


def test_wrong_options_are_named_before_any_test_runs(pytester: pytest.Pytester, run: Run) -> None:
    for number, option in enumerate(WRONG):
        code = f"import pytest\n@pytest.mark.raygrove({option})\ndef test_x(runtime):\n    pass\n"
        pytester.makepyfile(**{f"test_wrong_{number}": code})
    done = run("")
    done.assert_outcomes(errors=len(WRONG))
    for message in WRONG.values():
        assert message in str(done.stdout)
    assert "During handling" not in str(done.stdout)


LISTS_MODULES = """
import atexit, pathlib, sys

def list_modules():
    pathlib.Path("modules").write_text("\\n".join(sys.modules))

def test_nothing_of_agents():
    atexit.register(list_modules)
"""


def test_a_project_without_agents_imports_five_modules_for_the_plugin(run: Run, pytester: pytest.Pytester) -> None:
    run(LISTS_MODULES, "--markers").stdout.fnmatch_lines(["@pytest.mark.raygrove(*", "@pytest.mark.patterns(*"])
    found = []
    for options in (["-p", "no:raygrove"], []):
        run(LISTS_MODULES, *options).assert_outcomes(passed=1)
        found.append({*(pytester.path / "modules").read_text().splitlines()})
    assert found[1] - found[0] == {"raygrove", "raygrove.plugin", "raygrove.shadowing"} | {
        f"raygrove.plugin.{each}" for each in ("fixtures", "hooks")
    }


@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_test_runs_once_on_each_of_its_engines(pytester: pytest.Pytester, run: Run, scope: str) -> None:
    code = f"import pytest\npytestmark = pytest.mark.raygrove(engines=['local', 'ray'], scope={scope!r})\n"
    code += "def test_x(runtime): pass\ndef test_y(start_runtime): pass\n"
    code += "@pytest.mark.raygrove(engines='local')\ndef test_z(runtime): pass\n"
    done = run(code, "--collect-only", "-q")
    found = [line.partition("::")[2] for line in done.outlines if "::" in line]
    assert found == ["test_x[local]", "test_y[local]", "test_z", "test_x[ray]", "test_y[ray]"]
