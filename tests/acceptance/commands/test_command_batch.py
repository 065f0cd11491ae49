"""`raygrove batch`: a turn for each line of a file, and a line for each result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from actors.errors import RequestError
from tests.support.app_folders import write
from tests.support.console import invoke
from tests.support.sources import ROOT

pytestmark = pytest.mark.sampled(2, of="module")

APP = """
    from pathlib import Path

    from actors import LlmAgent
    from tests.support.models.map_models import NotedModel

    root_agent = LlmAgent(name="echo", model=NotedModel(Path({folder!r}) / "calls", 0.02, {{"bad": 1}}), output_key="said")
"""


@pytest.fixture(autouse=True)
def _echo_app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write(folder / "echo_app", {"agent.py": APP.format(folder=str(folder))})


def raygrove(*arguments: str, stdin: str | None = None) -> Result:
    return invoke("batch", "echo_app", *arguments, stdin=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def decoded(line: str) -> dict[str, Any]:
    """A result; nothing of a line that was cut off."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def calls() -> list[str]:
    return sorted(Path("calls").read_text().splitlines())


def test_lines_become_results_that_are_gone_on_with(tmp_path: Path) -> None:
    rows = [{"message": "a", "label": 1, "state_delta": {"topic": "tea"}}, "b", {"message": "bad", "session_id": "s"}, 7]
    Path("in.jsonl").write_text("\n".join([*map(json.dumps, rows), "", "{broken"]))
    first = raygrove("in.jsonl", "-o", "out.jsonl")
    assert first.exit_code == 1
    assert first.stdout == ""
    table = dict(line.split("\t") for line in first.stderr.splitlines())
    assert {name: table[name] for name in ("done", "failed", "  ConnectionError", "  InvalidMessageError")} == {
        "done": "2",
        "failed": "3",
        "  ConnectionError": "1",
        "  InvalidMessageError": "2",
    }
    found = {json.dumps(line["input"]): line for line in lines(Path("out.jsonl").read_text())}
    a = found[json.dumps(rows[0])]
    assert (a["outcome"], a["text"], a["state"], a["error"]) == ("finished", "echo a", {"topic": "tea", "said": "echo a"}, None)
    assert (a["id"], a["user_id"], a["attempts"]) == (a["session_id"], "user", 1)
    assert found['"b"']["text"] == "echo b"
    bad = found[json.dumps(rows[2])]
    assert (bad["outcome"], bad["session_id"], bad["error"]["type"]) == ("failed", "s", "ConnectionError")
    assert found["7"]["error"]["message"] == "a line must be a JSON object or a text, not 7"
    assert found["null"]["error"]["message"].startswith("line 6 is no JSON")

    with Path("out.jsonl").open("a") as file:
        file.write('{"id": "cut o')
    Path("in.jsonl").write_text("\n".join([*map(json.dumps, rows[:3]), '"c"']))
    again = raygrove("in.jsonl", "-o", "out.jsonl", "--concurrency", "2")
    assert again.exit_code == 0
    assert "of these from before\t2" in again.stderr
    written = lines(Path("out.jsonl").read_text())
    assert sorted(line["text"] for line in written) == ["echo a", "echo b", "echo bad", "echo c"]
    assert calls() == ["a", "b", "bad", "bad", "c"]


def test_cells_of_a_table_are_read_by_their_columns() -> None:
    Path("in.csv").write_text('question,label,state_delta\n"a, or b?",x,"{""topic"": 1}"\nc,y,\n')
    done = raygrove("in.csv", "--message-field", "question", "--name", "table")
    assert done.exit_code == 0
    first, second = sorted(lines(done.stdout), key=lambda line: str(line["text"]))
    assert (first["text"], first["state"]["topic"]) == ("echo a, or b?", 1)
    assert second["input"] == {"question": "c", "label": "y", "state_delta": ""}
    with pytest.raises(
        RequestError, match=r"has no column 'message'; its columns: question, label, state_delta.*--message-field"
    ):
        raygrove("in.csv")


def test_rows_come_from_the_standard_input_and_results_go_to_the_standard_output() -> None:
    done = raygrove("-", stdin='"a"\n"b"\n')
    assert sorted(line["text"] for line in lines(done.stdout)) == ["echo a", "echo b"]
    assert raygrove("-", "--format", "csv", stdin="message\nc\n").exit_code == 0
    assert "done\t2" in raygrove("-", stdin='"a"\n"b"\n').stderr
    assert calls() == ["a", "b", "c"]


def test_attempts_are_made_again() -> None:
    done = raygrove("-", "--retries", "1", stdin='"bad"\n')
    assert (done.exit_code, lines(done.stdout)[0]["attempts"]) == (0, 2)


def test_wrong_usage_is_named() -> None:
    Path("out.txt").write_text("my diary\n")
    Path("in.jsonl").write_text('"a"\n')
    with pytest.raises(RequestError, match=r"there is no file 'none\.jsonl'"):
        raygrove("none.jsonl")
    with pytest.raises(RequestError, match="--format whether it is jsonl or csv"):
        raygrove("in.parquet")
    with pytest.raises(RequestError, match="a line that is no result of a batch"):
        raygrove("in.jsonl", "-o", "out.txt")
    with pytest.raises(RequestError, match=r"'no/out\.jsonl' cannot be written"):
        raygrove("in.jsonl", "-o", "no/out.jsonl")
    with pytest.raises(RequestError, match="concurrency must be a whole number from 1 on"):
        raygrove("in.jsonl", "--concurrency", "0")
    assert Path("out.txt").read_text() == "my diary\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_stopped_or_killed_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    number = 200
    Path("in.jsonl").write_text("".join(f'"input {each}"\n' for each in range(number)))
    command = [str(Path(sys.executable).with_name("raygrove")), "batch", "echo_app", "in.jsonl", "-o", "out.jsonl"]
    with subprocess.Popen([*command, "--concurrency", "5"], stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as program:
        while not Path("out.jsonl").exists() or Path("out.jsonl").read_text().count("\n") < 20:
            assert program.poll() is None
            time.sleep(0.01)
        program.send_signal(how)
        assert program.stderr is not None
        said = program.stderr.read()
    assert program.returncode == (130 if how == signal.SIGINT else -how)
    assert ("The same program goes on from here" in said) == (how == signal.SIGINT)
    done = {line["input"] for line in map(decoded, Path("out.jsonl").read_text().splitlines()) if line}
    asked = Counter(calls())
    assert raygrove("in.jsonl", "-o", "out.jsonl").exit_code == 0
    # What was answered before is not asked again.
    assert done
    assert {each: Counter(calls())[each] for each in done} == {each: asked[each] for each in done}
    answers = [line["text"] for line in lines(Path("out.jsonl").read_text())]
    assert sorted(answers) == sorted(f"echo input {each}" for each in range(number))
    assert len(calls()) <= number + 5


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_a_row_that_is_no_text_is_an_error_of_its_own(format_: str) -> None:
    if format_ == "jsonl":
        rows = [
            r'"\ud800"',
            r'{"message": "\ud800"}',
            r'{"message": "x", "session_id": "\ud800"}',
            r'{"message": "x", "\ud800": 1}',
        ]
        Path("in.jsonl").write_bytes("\n".join([*rows, '"a"']).encode() + b'\n"\xff"\n')
    else:
        Path("in.csv").write_bytes(b"message,label\n\xff,1\nx,\xff\na,2\n")
    assert raygrove(f"in.{format_}", "-o", "out.jsonl").exit_code == 1
    found = lines(Path("out.jsonl").read_text())
    texts = sorted(line["text"] for line in found if line["outcome"] == "finished")
    kinds = {line["error"]["type"] for line in found if line["outcome"] == "failed"}
    assert kinds <= {"NotEncodableError", "InvalidIdError"}
    assert (len(found), texts) == ((6, ["echo a", "echo x"]) if format_ == "jsonl" else (3, ["echo a", "echo x"]))
    # The rows that failed are tried again.
    assert raygrove(f"in.{format_}", "-o", "out.jsonl").exit_code == 1
    assert len(lines(Path("out.jsonl").read_text())) == len(found)
