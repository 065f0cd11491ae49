"""`raygrove run`: one turn of an app from its code. The answer, and only that, goes to the standard output."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import Result

from actors.errors import RaygroveError, RequestError
from tests.acceptance.commands.test_command_chat import SLOW, TRIP
from tests.support.app_folders import HELLO, desk, write
from tests.support.console import invoke
from tests.support.programs.terminal_program import CTRL_C, TerminalProgram

pytestmark = [pytest.mark.sampled(3, of="module"), pytest.mark.usefixtures("folder")]


@pytest.fixture
def app(folder: Path) -> str:
    return str(desk(folder / "apps" / "desk_run").relative_to(folder))


def raygrove(*arguments: str, stdin: str | None = None) -> Result:
    return invoke("run", *arguments, stdin=stdin)


def answer_to(result: Result, value: str) -> str:
    """The argument of --answer that a paused turn has printed, with another value."""
    assert result.exit_code == 3
    command = shlex.split(result.stderr.splitlines()[-1])
    return f"{command[-1].partition('=')[0]}={value}"


def test_only_the_answer_goes_to_the_standard_output(app: str) -> None:
    for option in ("--no-stream", "--verbose"):
        result = raygrove(app, "it is late", option)
        assert (result.exit_code, result.stdout) == (0, "It is on its way.\n")
    told = result.stderr.splitlines()
    assert told[:2] == ["concierge → billing", 'billing → lookup_order(order_id="42")']
    assert told[2].startswith("billing ← lookup_order: ")


def test_what_models_were_asked_goes_to_the_standard_error(app: str) -> None:
    result = raygrove(app, "it is late", "--requests")
    assert (result.exit_code, result.stdout) == (0, "It is on its way.\n")
    told = result.stderr.splitlines()
    assert [line.partition(" asked ")[0] for line in told if line.startswith("model call")] == [
        "model call 1: concierge",
        "model call 2: billing",
        "model call 3: billing",
    ]
    assert "  content 1, user, text: it is late" in told
    assert any(line.startswith("  tool lookup_order: ") for line in told)
    assert "model call" not in raygrove(app, "it is late").stderr


def test_a_turn_that_waits_for_words_says_how_to_give_them(tmp_path: Path) -> None:
    write(tmp_path / "trip_run", {"agent.py": TRIP})
    asked = raygrove("trip_run", "hello", "--session", "s1")
    assert (asked.exit_code, asked.stdout) == (3, "Where to?\n")
    assert asked.stderr.splitlines()[-2:] == [
        "paused: an agent waits for your next message. Give it with",
        "  raygrove run trip_run --session s1 MESSAGE",
    ]
    answered = raygrove("trip_run", "Rome", "--session", "s1")
    assert (answered.exit_code, answered.stdout) == (0, "Off to Rome.\n")


def test_a_message_comes_from_the_standard_input(app: str) -> None:
    assert raygrove(app, "-", stdin="where is it?\nit is late\n").stdout == "It is on its way.\n"


def test_events_are_printed_as_lines_of_json(app: str) -> None:
    result = raygrove(app, "it is late", "--json", "--session", "s1", "--state", "plan=gold", "--state", '{"n": 1}')
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["author"] for event in events if event["author"] != "user"][-1] == "billing"
    shown = invoke("sessions", "show", "desk_run", "s1").stdout
    assert 'plan = "gold"' in shown
    assert "n = 1" in shown


def test_a_paused_turn_says_what_it_waits_for_and_how_it_is_answered(app: str) -> None:
    paused = raygrove(app, "refund", "--session", "s1", "--user", "ada")
    assert (paused.exit_code, paused.stdout) == (3, "")
    assert "refund(amount=80) of agent 'billing' must be confirmed" in paused.stderr
    assert f"raygrove run {app} --session s1 --user ada --answer" in paused.stderr
    done = raygrove(app, "--session", "s1", "--user", "ada", "--answer", answer_to(paused, "true"))
    assert (done.exit_code, done.stdout) == (0, "80 euros are yours.\n")


def test_a_result_that_comes_later_is_given_as_json(app: str) -> None:
    paused = raygrove(app, "manager", "--session", "s2")
    answer = answer_to(paused, '{"result": "yes"}')
    assert raygrove(app, "--session", "s2", "--answer", answer).stdout == "The manager agrees.\n"


def test_a_session_goes_on_and_others_begin_anew(app: str) -> None:
    raygrove(app, "it is late", "--session", "s3")
    assert raygrove(app, "hello", "--session", "s3").stdout == "Billing here.\n"
    assert raygrove(app, "hello").stdout == "How can I help?\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "give a message, or answers with --answer, and not both"),
        (("hi", "--answer", "c=1"), "give a message, or answers with --answer, and not both"),
        (("  ",), "the message is empty"),
        (("hi", "--state", "plan"), "--state 'plan': write KEY=VALUE, or a JSON object"),
        (("hi", "--state", "{plan"), "--state: '{plan' is no JSON"),
        (("--answer", "c"), "--answer 'c': write CALL_ID=JSON"),
        (("--answer", "c=yes"), "--answer c: 'yes' is no JSON"),
    ],
)
def test_wrong_usage_is_said_in_a_line(arguments: tuple[str, ...], error: str, app: str) -> None:
    with pytest.raises(RequestError) as raised:
        raygrove(app, *arguments)
    assert str(raised.value).startswith(error)


def test_exit_codes_tell_usage_from_failure(tmp_path: Path) -> None:
    write(tmp_path / "broken_r", {"agent.py": "raise KeyError('key')\n"})
    for path, code, error in (("nowhere", 2, "no folder or file 'nowhere'"), ("broken_r", 1, "KeyError")):
        done = subprocess.run(program(path, "hi"), capture_output=True, text=True, timeout=50, check=False)
        assert (done.returncode, done.stdout) == (code, "")
        assert error in done.stderr.splitlines()[-1]


def test_ctrl_c_cancels_the_turn(tmp_path: Path) -> None:
    write(tmp_path / "slow_r", {"agent.py": SLOW})
    with subprocess.Popen(
        program("slow_r", "go", "-v", "--session", "s1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "slow → wait()\n"
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read().splitlines()[-1] == "cancelled"
        assert time.monotonic() - started < 10
    assert "cancelled" in invoke("sessions", "show", "slow_r", "s1").stdout


def test_a_timeout_fails_the_turn(tmp_path: Path) -> None:
    write(tmp_path / "slow_t", {"agent.py": SLOW})
    with pytest.raises(RaygroveError):
        raygrove("slow_t", "go", "--timeout", "0.2")


def test_the_local_engine_answers_without_what_it_does_not_need_and_sessions_need_no_ray(tmp_path: Path) -> None:
    write(tmp_path, {"hello_r.py": HELLO})
    code = (
        "import sys\n"
        "from runtime.frontends.console.cli import main\n"
        "def raygrove(*words):\n"
        "    sys.argv = ['raygrove', *words]\n"
        "    try:\n        main()\n    except SystemExit: pass\n"
        "raygrove('run', 'hello_r.py', 'hi', '--session', 's1')\n"
        "raygrove('sessions', 'delete', 'hello_r', 's1')\n"
        "print([name for name in ('ray', 'google.genai', 'rich', 'grpc') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.splitlines() == ["Hello, my friend!", "session s1 of user is deleted", "[]"]


@pytest.mark.full
def test_agents_on_ray_import_the_app_s_own_modules(app: str, tmp_path: Path) -> None:
    write(tmp_path / app, {".env": "DESK_KEY=secret\n"})
    done = subprocess.run(program(app, "it is late", "--ray", "--json"), capture_output=True, text=True, timeout=55, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (result,) = (
        part["functionResponse"]["response"]
        for event in events
        for part in (event.get("content") or {}).get("parts", ())
        if part.get("functionResponse", {}).get("name") == "lookup_order"
    )
    assert (result["status"], result["key"]) == ("late", "secret")
    assert result["pid"] != os.getpid()


def program(*arguments: str) -> list[str]:
    """The command line of `raygrove run` in a process of its own."""
    return [sys.executable, "-c", "from runtime.frontends.console.cli import main; main()", "run", *arguments]


def test_a_terminal_says_where_the_conversation_is_shown_and_there_it_is(app: str, tmp_path: Path) -> None:
    assert "in a browser" not in raygrove(app, "hello").stderr
    with TerminalProgram(["run", app, "hello", "--session", "s 1", "--user", "ada"], tmp_path) as program:
        shown = program.until("session=s%201")
    assert "How can I help?" in shown
    [(command, place)] = re.findall(r"in a browser: raygrove (serve .*), then http://127.0.0.1:8000(/ui/\S+)", shown)
    assert place == "/ui/?app=desk_run&user=ada&session=s%201"
    with TerminalProgram([*shlex.split(command), "--port", "0"], tmp_path) as server:
        [url] = re.findall(r"at (http://\S+)", server.until("Ctrl-C ends it."))
        with urllib.request.urlopen(f"{url}/v1/apps/desk_run/sessions/s%201?user=ada") as response:
            assert json.load(response)["headSeq"] == 2
        with urllib.request.urlopen(f"{url}{place}") as response:
            assert b"inspector.js" in response.read()
        server.type(CTRL_C)
        server.exit_code()
