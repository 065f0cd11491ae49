"""The commands for a deployment that runs: from other processes on terminals, and in this one, all with one deployment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from typer.testing import CliRunner, Result

from actors.errors import AgentFailedError, ClusterError, DeploymentNotFoundError, RaygroveError, RequestError, StoreInUseError
from runtime.driver.runtime import Runtime
from runtime.frontends.console import cli, options
from runtime.settings import Settings
from tests.support.app_folders import fresh_imports, write
from tests.support.polling import until
from tests.support.programs.terminal_program import CTRL_C, TerminalProgram

pytestmark = pytest.mark.sampled(3, of="module")

NAME = "counter"

AGENTS = """
    import asyncio
    import logging
    from pathlib import Path

    from actors import LlmAgent, tool
    from actors.testing import PatternModel


    @tool
    async def wait() -> None:
        \"\"\"Wait long.\"\"\"
        await asyncio.sleep(600)


    @tool(require_confirmation=True)
    def refund(amount: int) -> dict:
        \"\"\"Pay money back.\"\"\"
        return {"paid": amount}


    @tool(long_running=True)
    def ask_manager(question: str) -> None:
        \"\"\"Ask the manager.\"\"\"


    def fail_once(context, request):
        if request.contents[-1].text == "talk":
            print("one moment")
            logging.getLogger("shop.desk").warning("asked to talk")
        if request.contents[-1].text == "shaky" and not Path(FLAG).exists():
            Path(FLAG).touch()
            raise ConnectionError("no connection")


    billing = LlmAgent(
        name="billing",
        description="Orders.",
        tools=[wait, refund, ask_manager],
        model=PatternModel(
            [
                ("hang", {"call": "wait", "args": {}}),
                ("refund", {"call": "refund", "args": {"amount": 80}}),
                ('tool:refund.*"paid"', "80 euros are yours."),
                ("tool:refund", "Then not."),
                ("manager", {"call": "ask_manager", "args": {"question": "May I?"}}),
                ("tool:ask_manager", "The manager has said it."),
            ],
            default="Billing here.",
        ),
    )
    root_agent = LlmAgent(
        name="concierge",
        model=PatternModel([("hang|refund|manager", {"transfer": "billing"})], default="How can I help?"),
        before_model_callback=fail_once,
        sub_agents=[billing],
    )
"""


@pytest.fixture(scope="module")
def folder(local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where `raygrove start` has started the deployment, which `raygrove stop` stops in the end."""
    folder = tmp_path_factory.mktemp("ops")
    write(folder / "code" / NAME, {"agent.py": AGENTS.replace("FLAG", repr(str(folder / "shaky")))})
    with pytest.MonkeyPatch.context() as patch, fresh_imports():
        patch.chdir(folder)
        patch.setenv("RAY_ADDRESS", local_ray)
        patch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
        assert raygrove("start", f"code/{NAME}") == f"{NAME} runs on the Ray at {local_ray}, with 2 agents\n"
        with pytest.raises(ClusterError, match=f"runs already: `raygrove stop {NAME}` ends it, and --app-name gives another"):
            raygrove("start", f"code/{NAME}")
        yield folder
        assert raygrove("stop", NAME, "--drain", "--within", "5s").startswith(f"{NAME} has stopped: ")
        with pytest.raises(DeploymentNotFoundError, match=f"app {NAME!r} is not deployed"):
            raygrove("stop", NAME)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def raygrove(*arguments: str) -> str:
    """What the command prints. Raises its error."""
    result = invoke(*arguments)
    if isinstance(result.exception, RaygroveError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def paused(session: str, message: str = "refund") -> str:
    """A session of ada's with a call that waits, whose id is returned."""
    result = invoke("run", NAME, message, "--session", session, "--user", "ada", "--json")
    assert result.exit_code == 3
    found = turn(session)
    (call,) = found["pending"]
    assert found["agent"] == call["agent"] == "billing"
    return str(call["callId"])


def turn(session: str, *options: str) -> dict[str, Any]:
    """The turn of a session of ada's that is open."""
    (line,) = raygrove("turns", NAME, "--json", "--user", "ada", "--session", session, *options).splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def hanging(rt: Runtime, session: str) -> str:
    """The id of a turn in the middle of a call."""
    turn = rt.run(user_id="ada", session_id=session, message="hang", on_leave="continue")
    next(event for event in turn for call in event.function_calls() if call.name == "wait")
    return turn.invocation_id


@pytest.mark.full
def test_a_turn_is_watched_and_cancelled_from_other_terminals(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        invocation = hanging(rt, "s1")
        with TerminalProgram(["tail", NAME, "s1", "-f"], folder) as tail, TerminalProgram(["top", NAME], folder) as top:
            assert "1  user  text  hang\n" in tail.until("billing  call  wait()\n")
            assert "ACTOR" in top.until("RESTARTS")
            top.until("\nbilling ")
            with TerminalProgram(["attach", NAME, "s1", invocation, "-v"], folder) as attach:
                attach.until("billing → wait()\n")
                attach.type(CTRL_C)
                attach.until("left: the turn goes on\n")
                assert attach.exit_code() == 130
            assert rt.turns.get("ada", "s1", invocation).state == "running"
            with TerminalProgram(["ps"], folder) as ps:
                assert "NAME" in ps.until("AGE\n")
                assert ps.until("\n").split()[:6] == [NAME, "2", "2", "0", "1", "0"]
            with TerminalProgram(["cancel", NAME, "s1"], folder) as cancel:
                cancel.until(f'{invocation} is cancelled; sealed: 1 call answered {{"error": "cancelled"}}\n')
                assert cancel.exit_code() == 0
            tail.until('billing  response  wait: {"error":"cancelled"}\n')
            assert rt.turns.get("ada", "s1", invocation).state == "cancelled"
            for program in (tail, top):
                program.type(CTRL_C)
                assert program.exit_code() == 0


def test_a_call_is_answered_from_another_terminal(folder: Path) -> None:
    call_id = paused("s2")
    with TerminalProgram(["answer", NAME, "s2", call_id, "yes"], folder) as answer:
        assert answer.until("80 euros are yours.\n") == "80 euros are yours.\n"
        assert answer.exit_code() == 0


def test_a_paused_turn_says_how_it_is_answered_and_answers_are_checked(folder: Path) -> None:
    call_id = paused("s3")
    invocation = str(turn("s3")["invocationId"])
    attached = invoke("attach", NAME, "s3", invocation)
    assert (attached.exit_code, attached.stdout) == (3, "")
    assert f"raygrove answer {NAME} s3 {call_id} yes --user ada" in attached.stderr
    listed = raygrove("turns", NAME, "--state", "paused", "--user", "ada", "--session", "s3").splitlines()[1].split("\t")
    assert (listed[1], listed[4], listed[6]) == ("s3", "paused", f"{call_id} refund(amount=80)")
    described = raygrove("describe", NAME, "s3", "--user", "ada")
    assert described.startswith(f"turn {invocation} of session 's3' of user 'ada': paused\n")
    assert f": {call_id} refund(amount=80)\n" in described
    with TerminalProgram(["turns", NAME, "--user", "ada", "--session", "s3"], folder) as turns:
        assert invocation in turns.until(f"s3 waits for: {call_id} refund(amount=80)\n")
    for given, error in (
        (("s3", call_id, "perhaps"), "refund of agent 'billing' must be confirmed: answer yes or no, not 'perhaps'"),
        (("s3", "c", "yes"), f"call 'c' waits for no answer in session 's3'. Calls that wait: {call_id} (refund)"),
        (("s33", call_id, "yes"), f"there is no session 's33' in {NAME!r}."),
    ):
        with pytest.raises(RequestError) as raised:
            raygrove("answer", NAME, *given)
        assert str(raised.value).startswith(error)
    assert raygrove("answer", NAME, "s3", call_id, "no") == "Then not.\n"
    call_id = paused("s4", "manager")
    with pytest.raises(RequestError, match="the result of ask_manager: 'yes' is no JSON"):
        raygrove("answer", NAME, "s4", call_id, "yes")
    assert raygrove("answer", NAME, "s4", call_id, '"yes"') == "The manager has said it.\n"


def test_usage_is_added_up_in_a_table_and_as_json(folder: Path) -> None:
    assert invoke("run", NAME, "hello", "--session", "used", "--user", "eve", "--json").exit_code == 0
    head, *rows = (line.split("\t") for line in raygrove("usage", NAME, "--user", "eve", "--by", "agent").splitlines())
    assert head == ["AGENT", "CALLS", "TOOLS", "INPUT", "CACHED", "OUTPUT", "REASONING", "SECONDS"]
    assert [row[:7] for row in rows] == [[name, "1", "0", "0", "0", "0", "0"] for name in ("concierge", "all")]
    (line,) = raygrove("usage", NAME, "--user", "eve", "--session", "used", "--since", "1h", "--json").splitlines()
    report = json.loads(line)
    assert (report["total"]["llmCalls"], report["groups"], report["currency"]) == (1, {}, "")
    (turn,) = (json.loads(line) for line in raygrove("turns", NAME, "--state", "all", "--user", "eve", "--json").splitlines())
    assert json.loads(raygrove("turns", NAME, "--state", "all", "--session", "used", "--json")) == turn
    only = ["--session", "used", "--turn", turn["invocationId"]]
    assert json.loads(raygrove("usage", NAME, *only, "--json")) == report
    with pytest.raises(RequestError, match="by must be one of agent, model, user, day"):
        raygrove("usage", NAME, "--by", "week")
    assert "'soon' is no age" in invoke("usage", NAME, "--since", "soon").output


def test_what_agents_log_is_read_and_followed_from_another_terminal(folder: Path) -> None:
    with TerminalProgram(["logs", NAME, "-f", "--agent", "concierge", "--session", "loud-2"], folder) as following:
        for session in ("loud-1", "loud-2"):
            with Runtime.connect(NAME) as rt:
                rt.run(user_id="ada", session_id=session, message="talk").result()
        following.until("asked to talk\n")
        following.type(CTRL_C)
        assert following.exit_code() == 0
    said = [json.loads(line) for line in raygrove("logs", NAME, "--json", "--agent", "concierge").splitlines()]
    told = [(line["session_id"], line["level"], line["logger"], line["message"]) for line in said]
    expected = [(f"loud-{number}", *line) for number in (1, 2) for line in LOUD]
    assert [each for each in told if each[0].startswith("loud")] == expected
    assert [line["time"] for line in said] == sorted(line["time"] for line in said)
    warned = raygrove("logs", NAME, "--session", "loud-1", "--level", "warning", "--since", "1h")
    assert warned.splitlines()[0].endswith("WARNING concierge shop.desk: asked to talk")
    assert len(warned.splitlines()) == 1
    assert raygrove("logs", NAME, "--session", "loud-1", "--user", "bob") == ""
    with pytest.raises(RequestError, match=r"there is no level 'warn'\. Did you mean 'WARNING'"):
        raygrove("logs", NAME, "--level", "warn")


def test_what_has_happened_to_the_deployment_is_printed(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        rt.run(user_id="ada", session_id="happened", message="hello").result()
    started: list[str] = []
    while not started:
        started = raygrove("events", NAME, "--kind", "process started", "--since", "1d").splitlines()[1:]
    _, kind, pid, text = started[0].split("\t")
    assert (kind, pid.isdecimal(), text.endswith(" has been started for agents")) == ("process started", True, True)
    [first, *_] = [json.loads(line) for line in raygrove("events", NAME, "--json").splitlines()]
    assert set(first) == {"atS", "kind", "text", "pid"}
    summary, columns, *rows = raygrove("top", NAME, "--count", "1", "--interval", "0.1").splitlines()
    assert "\tlost processes 0\ttokens 0\t" in summary
    assert re.search(r"\tclaimed 0 of [1-9]\d* CPUs of 1 node\t", summary)
    assert columns.split("\t")[-3:] == ["CPU", "MEMORY", "RESTARTS"]
    assert all(row.split("\t")[-3].endswith(" %") and row.endswith("\t0") for row in rows)


LOUD = (("INFO", "stdout", "one moment"), ("WARNING", "shop.desk", "asked to talk"))


def test_a_failed_turn_is_retried(folder: Path) -> None:
    (folder / "shaky").unlink(missing_ok=True)
    with Runtime.connect(NAME) as rt:
        with pytest.raises(AgentFailedError, match="no connection"):
            rt.run(user_id="ada", session_id="shaky", message="shaky").result()
        [failed] = rt.turns.list("ada", "shaky")
        with TerminalProgram(["retry", NAME, "shaky"], folder) as again:
            again.until("How can I help?\n")
            assert again.exit_code() == 0
        assert rt.turns.get("ada", "shaky", failed.invocation_id).state == "finished"
    with pytest.raises(RequestError, match="no turn of session 'shaky' has failed: there is nothing to retry"):
        raygrove("retry", NAME, "shaky")


def test_a_schedule_is_created_and_runs_in_the_deployment(folder: Path) -> None:
    raygrove("schedules", "create", NAME, "daily", "hello", "--user", "ada", "--session", "daily", "--every", "1d")
    assert "every 86400 s" in raygrove("schedules", "list", NAME)
    assert raygrove("schedules", "run", NAME, "daily") == "How can I help?\n"
    assert raygrove("schedules", "delete", NAME, "daily") == "deleted schedule 'daily' of user 'ada'\n"


def test_a_session_with_several_open_turns_asks_which_to_cancel(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        first = hanging(rt, "s5")
        second = rt.run(user_id="ada", session_id="s5", message="hello", on_leave="continue").invocation_id
        while len(raygrove("turns", NAME, "--json", "--user", "ada", "--session", "s5").splitlines()) < 2:
            pass
        with pytest.raises(
            RequestError, match=rf"2 open turns: name one of {second} \(waiting\), {first} \(running\), or give --all"
        ):
            raygrove("cancel", NAME, "s5")
        cancelled = [json.loads(line) for line in raygrove("cancel", NAME, "s5", "--all", "--json").splitlines()]
        assert [(each["invocationId"], each["sealedCalls"]) for each in cancelled] == [(second, 0), (first, 1)]
        with pytest.raises(RequestError, match="no turn of session 's5' is open"):
            raygrove("cancel", NAME, "s5")
        with pytest.raises(RequestError, match=f"turn {first!r} has ended already: it is cancelled"):
            raygrove("cancel", NAME, "s5", first)


def test_turns_are_found_and_many_are_cancelled_retried_and_answered(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        hang = [hanging(rt, f"many-{number}") for number in range(3)]
        calls = [paused(f"asks-{number}") for number in range(2)]
        listed = raygrove("turns", NAME, "--agent", "billing", "--user", "ada", "--since", "1h", "--state", "running", "--json")
        assert sorted(json.loads(line)["invocationId"] for line in listed.splitlines()) == sorted(hang)
        assert raygrove("turns", NAME, "--older-than", "1h") == raygrove("turns", NAME, "--agent", "nobody")
        filters = ("--agent", "billing", "--state", "running")
        shown = invoke("cancel", NAME, "--all", *filters, "--dry-run")
        assert (shown.exit_code, shown.stderr) == (0, "3 turns would be cancelled\n")
        with pytest.raises(RequestError, match="3 turns would be cancelled: look with --dry-run, and give --yes"):
            raygrove("cancel", NAME, "--all", *filters)
        done = invoke("cancel", NAME, "--all", *filters, "--yes", "--json")
        assert sorted(json.loads(line)["invocationId"] for line in done.stdout.splitlines()) == sorted(hang)
        again = invoke("cancel", NAME, "--all", *filters, "--yes")
        assert (again.exit_code, again.stderr) == (0, "no turn fits: nothing is cancelled\n")
        answered = invoke("answer", NAME, "--all", "--tool", "refund", "--value", "yes", "--user", "ada", "--yes")
        assert (answered.exit_code, answered.stderr) == (0, "2 turns answered\n")
        assert all(f"{call} answered" in answered.stdout for call in calls)
        for number in range(2):
            until(partial(rt.turns.list, "ada", f"asks-{number}", "finished"))
        (folder / "shaky").unlink(missing_ok=True)
        for number in range(2):
            with pytest.raises(AgentFailedError):
                rt.run(user_id="ada", session_id=f"fails-{number}", message="shaky").result()
            (folder / "shaky").unlink()
        (folder / "shaky").touch()
        retried = invoke("retry", NAME, "--all", "--error", "NO CONNECTION", "--since", "1h", "--yes")
        assert (retried.exit_code, retried.stderr) == (0, "2 turns run on\n")
        for number in range(2):
            until(partial(rt.turns.list, "ada", f"fails-{number}", "finished"))
    for arguments in (
        ("cancel", NAME),
        ("cancel", NAME, "--agent", "billing"),
        ("cancel", NAME, "--all", "--state", "failed"),
        ("retry", NAME, "s1", "--dry-run"),
        ("retry", NAME, "s1", "e-1", "--all"),
        ("answer", NAME, "--all"),
        ("answer", NAME, "s1", "c-1"),
        ("answer", NAME, "s1", "c-1", "yes", "--tool", "refund"),
    ):
        with pytest.raises(RequestError):
            raygrove(*arguments)


def test_a_deployment_is_spoken_to_and_shown(folder: Path, local_ray: str) -> None:
    assert raygrove("run", NAME, "hello", "--session", "s6", "--user", "bob") == "How can I help?\n"
    assert raygrove("tail", NAME, "s6", "-n", "1") == "2\tconcierge\ttext\tHow can I help?\n"
    first, _ = (json.loads(line) for line in raygrove("tail", NAME, "s6", "--after", "0", "--json").splitlines())
    assert first["author"] == "user"
    shown = raygrove("tree", NAME).splitlines()
    assert shown[0].startswith("concierge (llm, PatternModel)  ● pid ")
    assert shown[1].startswith("  billing (llm, PatternModel, wait, refund, ask_manager): Orders.")
    assert raygrove("tree", f"code/{NAME}", "--depth", "0") == "concierge (llm, PatternModel) [1 more below]\n"
    live = [json.loads(line) for line in raygrove("tree", NAME, "--live", "--json").splitlines()]
    assert "concierge" in [agent["name"] for agent in live if agent["pid"]]
    (row,) = [json.loads(line) for line in raygrove("ps", "--json").splitlines() if NAME in line]
    assert (row["agents"], row["open"], row["address"]) == (2, 0, local_ray)
    assert invoke("ps").stderr == f"deployments on the Ray at {local_ray}\n"
    # The models of the app tell no tokens.
    assert (row["tokens"], row["money"]) == (0, None)
    look = json.loads(raygrove("top", NAME, "--interval", "0.1", "--json"))
    assert (look["tokens"], look["budgetRefusals"]) == (0, 0)
    assert {"session", "runner", "concierge"} <= {actor["actor"] for actor in look["actors"]}
    assert all(actor["node"] and actor["memoryBytes"] for actor in look["actors"])
    assert options.complete_app("cou") == [NAME]
    assert options.complete_app("co") == ["code", NAME]
    assert f"deployments: {NAME}" in invoke("doctor").stdout


def test_the_inspector_of_a_deployment_is_served_to_who_has_its_token(folder: Path, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("raygrove")), "ui", NAME, "--open"]
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat "${{1#file://}}" > {tmp_path}/opened\n')
    browser.chmod(0o700)
    variables = {**os.environ, "BROWSER": f"{browser} %s"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout is not None
            named, _, place = process.stdout.readline().strip().partition(" at ")
            page, _, token = place.partition("#token=")
            assert (named, urlsplit(page).path, urlsplit(page).query) == (NAME, "/ui/", f"app={NAME}")
            assert httpx2.get(page).status_code == 200
            apps = page.partition("/ui/")[0] + "/v1/apps"
            assert httpx2.get(apps).status_code == 401
            assert httpx2.get(apps, headers={"Authorization": f"Bearer {token}"}).json()["apps"][0]["name"] == NAME
            # Of the browser's arguments, which other users see, none has the token.
            until(lambda: (tmp_path / "opened").exists() and token in (tmp_path / "opened").read_text())
            assert token not in (tmp_path / "arguments").read_text()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        finally:
            process.kill()
    # It runs on.
    assert NAME in raygrove("ps")


def test_a_session_is_copied_taken_back_and_deleted_through_the_app_that_runs(folder: Path, local_ray: str) -> None:
    there = ("--user", "ada", "--address", local_ray)
    for message in ("hello", "hello again"):
        raygrove("run", NAME, message, "--session", "s7", "--user", "ada")
    (folder / "s7.jsonl").write_text(raygrove("sessions", "export", NAME, "s7", "--user", "ada"))
    imported = raygrove("sessions", "import", NAME, "s7.jsonl", "--session", "s8", *there)
    assert imported == "session s8 of ada has 4 events\n"
    with pytest.raises(RaygroveError, match="exists already"):
        raygrove("sessions", "import", NAME, "s7.jsonl", "--session", "s8", *there)
    assert raygrove("run", NAME, "and now", "--session", "s8", "--user", "ada") == "How can I help?\n"
    events = [json.loads(line) for line in raygrove("tail", NAME, "s7", "--user", "ada", "--after", "0", "--json").splitlines()]
    second = events[2]["invocationId"]
    assert raygrove("sessions", "rewind", NAME, "s7", second, *there) == f"session s7 of ada is as it was before {second}\n"
    assert "hello again" not in raygrove("sessions", "show", NAME, "s7", "--user", "ada")
    for session in ("s7", "s8"):
        assert raygrove("sessions", "delete", NAME, session, *there) == f"session {session} of ada is deleted\n"
        with pytest.raises(RaygroveError, match=f"user 'ada' has no session '{session}'"):
            raygrove("tail", NAME, session, "--user", "ada")


def test_in_the_folder_of_its_code_a_name_means_the_deployment(
    folder: Path, local_ray: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the deployment was started from: its store is there, too."""
    monkeypatch.chdir(folder / "code")
    for address in ((), ("--address", local_ray)):
        run = invoke("run", NAME, "hello", "--session", "s9", "--user", "eve", *address)
        assert (run.exit_code, run.stdout) == (0, "How can I help?\n")
        assert run.stderr == f"{NAME} is the deployment that runs; ./{NAME} is the code\n"
    with Runtime.connect(NAME) as rt:
        assert [turn.state for turn in rt.turns.list("eve", "s9")] == ["finished"] * 2
        assert repr(rt) == f"Runtime({NAME!r}, started on the Ray at {local_ray})"
    live = [json.loads(line) for line in raygrove("tree", NAME, "--live", "--json").splitlines()]
    assert "concierge" in [agent["name"] for agent in live if agent["pid"]]
    with pytest.raises(RequestError, match="is code, of which no agent lives"):
        raygrove("tree", f"./{NAME}", "--live")


def test_the_code_of_a_deployment_that_lives_does_not_run_over_its_store(
    folder: Path, local_ray: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in.jsonl").write_text('{"message": "hello"}\n')
    store = f"sqlite:///{folder}/.raygrove/{NAME}.db"
    code = f"code/{NAME}"
    for arguments in (
        ("run", code, "hi"),
        ("chat", code),
        ("batch", code, "in.jsonl", "--output", "out.jsonl"),
        ("serve", code, "--port", "0"),
        ("run", code, "hi", "--store", store),
        ("start", code, "--store", store, "--app-name", NAME),
    ):
        with pytest.raises(RaygroveError, match="runs already") as refused:
            raygrove(*arguments)
        assert isinstance(refused.value, StoreInUseError) or arguments[0] == "start"
    with pytest.raises(RaygroveError, match=f"is in use: app {NAME!r} runs on the Ray at {local_ray}"):
        raygrove("sessions", "delete", NAME, "s1")
    with pytest.raises(RaygroveError, match=f"is in use: app {NAME!r} runs on the Ray at {local_ray}"):
        raygrove("store", "copy", store, f"sqlite:///{folder}/copy.db")
    # Reading is not refused.
    raygrove("sessions", "list", NAME)


def test_a_deployment_of_another_namespace_is_told_with_its_namespace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = Settings().namespace
    monkeypatch.setenv("RAYGROVE_NAMESPACE", "elsewhere")
    # In another namespace of the same Ray, another run of these tests may have deployed an app of that name.
    with pytest.raises(DeploymentNotFoundError, match=f"It runs in .*{namespace!r}.*: set RAYGROVE_NAMESPACE"):
        raygrove("turns", NAME)
    assert NAME not in raygrove("ps")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("turns", "countre"), DeploymentNotFoundError, "Apps that are: .*Did you mean 'counter'"),
        (
            ("run", "countre", "hi"),
            RequestError,
            "no folder or file 'countre', and it names no deployment that runs: .*'counter'",
        ),
        (("run", NAME, "hi", "--ray"), RequestError, "--ray goes with code, and 'counter' is the name of a deployment"),
        (("start", NAME), RequestError, "there is no file or folder 'counter'"),
        (("tree", "code/counter", "--live"), RequestError, "is code, of which no agent lives"),
        (("tree", NAME, "--under", "biling"), RaygroveError, "Did you mean 'billing'"),
        (("tail", NAME, "s1", "--user", "eve"), RequestError, "user 'eve' has no session 's1'"),
        (("turns", NAME, "--state", "pausd"), RequestError, "'pausd'"),
        (("turns", NAME, "--session", "nosuch"), RequestError, "there is no session 'nosuch' in 'counter'"),
        (("events", NAME, "--kind", "lost"), RequestError, "kind must be one of process started, process lost, "),
        (("ps", "--address", "127.0.0.1:1"), ClusterError, "nothing can be reached there"),
        (("ps", "--address", "nonsense"), ClusterError, "^'nonsense' is no address of a Ray: give host:port"),
        (("turns", NAME, "--address", "http://127.0.0.1:6379"), ClusterError, "is no address of a Ray"),
        (("run", NAME, "hi", "--address", "nonsense"), RequestError, "'nonsense' is no address of a Ray"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_with_a_way_out(
    folder: Path, arguments: tuple[str, ...], error: type[RaygroveError], says: str
) -> None:
    with pytest.raises(error, match=says):
        raygrove(*arguments)
    assert os.environ.get("RAY_AUTH_MODE") in (None, "disabled", "token")
