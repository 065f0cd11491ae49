"""A model's Python runs in a process of its own: what it gets, what comes back, and what ends it."""

from __future__ import annotations

import os
import select
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from actors import Blob, LlmAgent, Part, Tool
from actors.errors import DefinitionError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.integrations.code.tool import python_tool
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, saved_blob

pytestmark = pytest.mark.sampled(3, of="module")


def code(text: str, **args: Any) -> dict[str, Any]:
    return {"call": "run_python", "args": {"code": text, **args}}


def agent(*steps: Any, tool: Tool | None = None) -> LlmAgent:
    return LlmAgent(name="coder", model=ScriptedModel([{"parts": list(steps)}, "done"]), tools=[tool or python_tool()])


def results(rt: Runtime) -> list[dict[str, Any]]:
    return [response.response for event in run_turn(rt, "go") for response in event.function_responses()]


DOUBLES = """
import pathlib
numbers = [int(line) for line in open("numbers.txt")]
pathlib.Path("out").mkdir()
pathlib.Path("out/doubled.csv").write_text("\\n".join(str(2 * each) for each in numbers))
print("doubled")
sum(numbers)
"""
WHERE = "import os; print(sorted(os.environ)); print(os.getpid()); print(os.listdir())"
FAILS = "def divide(x):\n    return x / 0\n\ndivide(1)"


def folders() -> set[str]:
    """The folders of runs. Other tests have some for a while, so one waits until there are no more of them."""
    return {each for each in os.listdir(tempfile.gettempdir()) if each.startswith("raygrove-python-")}


def test_code_gets_files_and_leaves_output_and_artifacts(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    before = folders()
    with deploy(agent(code(DOUBLES, files=["numbers.txt"]), code(WHERE), tool=python_tool(env={"REGION": "eu"}))) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "numbers.txt", Part(inline_data=Blob(data=b"1\n2\n3\n", mime_type="text/plain")))
        doubled, where = results(rt)
        assert doubled == {"stdout": "doubled\n6\n", "files": ["out/doubled.csv"]}
        assert saved_blob(rt, "out/doubled.csv") == Blob(data=b"2\n4\n6", mime_type="text/csv")
        variables, pid, listed = where["stdout"].splitlines()
        assert "REGION" in variables
        assert not any(name in variables for name in ("SECRET", "RAY", "PYTHON"))
        assert int(pid) != rt.statistics().agents["coder"].pid
        assert listed == "[]"
        until(lambda: folders() <= before)


def test_code_that_fails_or_needs_too_much_is_told_to_the_model(local: Deploy) -> None:
    tool = python_tool(timeout_s=2.0, max_memory_bytes=512 * 1024 * 1024)
    with local(agent(code(FAILS), code("x = bytearray(10**9)"), code("print('begun')\nwhile True: pass"), tool=tool)) as rt:
        fails, memory, endless = results(rt)
    assert fails["error"] == "the run ended with exit code 1"
    assert fails["stderr"].splitlines()[1:] == [
        '  File "<code>", line 4, in <module>',
        "    divide(1)",
        '  File "<code>", line 2, in divide',
        "    return x / 0",
        "           ~~^~~",
        "ZeroDivisionError: division by zero",
    ]
    assert memory["error"] == "the run needed more than 512 MiB of memory"
    assert endless == {"stdout": "begun\n", "error": "the run took longer than 2 s and was ended"}


def test_code_ends_with_its_turn(deploy: Deploy, tmp_path: Path) -> None:
    before = folders()
    os.mkfifo(pids := tmp_path / "pids")
    endless = (
        "import os, subprocess, time\n"
        "started = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{started.pid}} {{os.getppid()}}')\n"
        "time.sleep(60)"
    )
    root = LlmAgent(name="coder", model=ScriptedModel([code(endless), "next"]), tools=[python_tool(timeout_s=50)])
    with deploy(root) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        processes = [os.pidfd_open(int(each)) for each in pids.read_text().split()]
        turn.cancel()
        for process in processes:
            assert select.select([process], [], [], 20)[0], "a process of the code goes on"
            os.close(process)
        until(lambda: folders() <= before)
        assert run_turn(rt, "again")[-1].text == "next"


LEAVES_A_PROCESS = """
import os, time
if os.fork() == 0:
    os.setsid()
    open("pid", "w").write(str(os.getpid()))
    os.rename("pid", "left")
    os.close(1), os.close(2)
    time.sleep(60)
while not os.path.exists("left"):
    pass
print("done")
"""
STOPS_ITS_SUPERVISOR = """
import os, signal, time
print("begun")
open("kept", "w").write("x")
os.kill(os.getppid(), signal.SIGSTOP)
time.sleep(60)
"""
MANY_FILES = """
import os
os.mkdir("many")
for number in range(20_000):
    os.close(os.open(f"many/{number}", os.O_CREAT))
print("done")
"""


def test_a_process_that_was_left_behind_takes_nothing_of_the_run_along(deploy: Deploy) -> None:
    before = folders()
    with deploy(agent(code(LEAVES_A_PROCESS))) as rt:
        (result,) = results(rt)
        assert result == {"stdout": "done\n", "files": ["left"]}
        os.kill(int(saved_blob(rt, "left").data), signal.SIGKILL)
        until(lambda: folders() <= before)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["after its time", "with its turn"])
def test_code_that_stops_its_supervisor_is_ended_with_it(deploy: Deploy, tmp_path: Path, *, is_cancelled: bool) -> None:
    before = folders()
    os.mkfifo(pids := tmp_path / "pids")
    says = f"\nopen({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')\n"
    stops = STOPS_ITS_SUPERVISOR.replace("time.sleep", says + "time.sleep")
    root = LlmAgent(
        name="coder", model=ScriptedModel([code(stops), "next"]), tools=[python_tool(timeout_s=50 if is_cancelled else 1)]
    )
    with deploy(root) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        processes = [os.pidfd_open(int(each)) for each in pids.read_text().split()]
        if is_cancelled:
            turn.cancel()
        else:
            (result,) = [response.response for event in turn for response in event.function_responses()]
            assert result == {"stdout": "begun\n", "files": ["kept"], "error": "the run took longer than 1 s and was ended"}
        for process in processes:
            assert select.select([process], [], [], 20)[0], "a process of the code goes on"
            os.close(process)
        until(lambda: folders() <= before)


def test_a_folder_goes_with_a_run_whose_supervisor_was_killed(local: Deploy) -> None:
    before = folders()
    kills = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)"
    with local(agent(code(kills))) as rt:
        (result,) = results(rt)
    assert "was killed" in result["error"]
    until(lambda: folders() <= before)


def test_of_very_many_files_only_the_first_are_looked_at(local: Deploy) -> None:
    with local(agent(code(MANY_FILES), tool=python_tool(max_files=3))) as rt:
        (result,) = results(rt)
    assert (result["stdout"], len(result["files"]), len(result["files_not_kept"])) == ("done\n", 3, 20)
    assert result["files_not_kept"][0] == "what comes after the first 10,000 files and folders"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 2", {"stdout": "4\n"}),
        ("None", {"stdout": ""}),
        ("import sys; sys.exit(3)", {"stdout": "", "error": "the run ended with exit code 3"}),
        ("import sys; print('é', file=sys.stderr)", {"stdout": "", "stderr": "é\n"}),
        ("import os; os.abort()", {"stdout": "", "error": "the run was ended by SIGABRT; it may use 1024 MiB of memory"}),
        ("print('a' * 50 + 'b' * 60)", {"stdout": f"{'a' * 50}\n… 11 characters left out …\n{'b' * 49}\n"}),
        (
            "import os\nos.symlink('/etc/passwd', 'x')\nfor n in 'ab': open(n, 'w').write(n)",
            {"files": ["a"], "files_not_kept": ["b"]},
        ),
        (
            "with open('big', 'wb') as file: file.write(bytes(2000))",
            {"error": "the run ended with exit code 1", "files_not_kept": ["big"]},
        ),
        ("import subprocess; subprocess.Popen(['sleep', '9']); print('left')", {"stdout": "left\n"}),
        ("input()", {"error": "the run ended with exit code 1"}),
        (7, {"error": "ValueError: run_python needs the argument code, a text"}),
    ],
    ids=[
        "value",
        "no value",
        "exit",
        "stderr",
        "signal",
        "long output",
        "files",
        "large file",
        "left behind",
        "input",
        "no text",
    ],
)
def test_what_a_model_gets(local: Deploy, text: Any, expected: dict[str, Any]) -> None:
    tool = python_tool(max_output_chars=100, max_files=1, max_file_bytes=1000)
    with local(agent(code(text), tool=tool)) as rt:
        (result,) = results(rt)
    assert {key: result.get(key) for key in expected} == expected


def test_files_have_to_be_there_and_to_have_a_name_in_the_folder(local: Deploy) -> None:
    with local(agent(code("1", files=["nothing"]), code("1", files="x"), code("1", files=["a/.."]))) as rt:
        rt.sessions.create("ada", "s1")
        rt.artifacts.save("ada", "s1", "a/..", Part(text="x"))
        errors = [each["error"] for each in results(rt)]
    assert errors == [
        "ValueError: there is no artifact 'nothing'. There are: a/..",
        "ValueError: files has to be a list of names of artifacts",
        "ValueError: 'a/..' cannot be a file in the folder of the code: its name is taken, or is none",
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_cpu": 1}, "python_tool: num_cpu: there is no such field"),
        ({"timeout_s": 0}, r"python_tool\(timeout_s=0\): use a number above 0"),
    ],
    ids=["unknown", "zero"],
)
def test_a_wrong_option_is_named(options: dict[str, Any], error: str) -> None:
    with pytest.raises(DefinitionError, match=error):
        python_tool(**options)
