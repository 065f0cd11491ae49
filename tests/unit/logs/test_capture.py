"""What a process logs and prints goes into its outlet, from there into files, and never blocks an agent."""

from __future__ import annotations

import contextvars
import dataclasses
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.interfaces.telemetry import RunFacts, in_run
from runtime.observability.logs import capture, sinks
from runtime.observability.logs.capture import MAX_LINE, MAX_LINES, Outlet, RunStream, start_capture
from runtime.observability.logs.lines import Line, line_of
from runtime.observability.logs.sinks import LogFiles, LogOptions, Replay, log_options
from runtime.settings import Settings

RUN = RunFacts("desk", "ada", "s1", "e-1")
OPTIONS = LogOptions("shop", logging.INFO, {"shop.loud": logging.ERROR}, "%(levelname)s %(agent)s %(message)s", None)


class Kept:
    """A sink that keeps lines."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def put_lines(self, lines: Sequence[Line]) -> None:
        self.lines += lines


def printed(run: RunFacts, text: str = "hello", kind: str = "stdout") -> Line:
    return Line(run, text, kind, os.getpid(), 0.0)


def logged(run: RunFacts, text: str = "hello", level: int = logging.INFO) -> Line:
    return Line(run, text, "", os.getpid(), 0.0, "shop.code", level)


def test_records_and_prints_of_runs_are_captured_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ("import sys; from tests.unit.logs.test_capture import captured; captured()",)
    ended = subprocess.run([sys.executable, "-c", *program], capture_output=True, text=True, check=True)
    said = ["stdout said", "stderr warned", "stdout no end"]
    assert ended.stdout.splitlines() == ["outside", "forked", "INFO told", "ERROR loud", *said]


def captured() -> None:
    """Run in a process of its own, because it changes stdout and the loggers."""
    kept = Kept()
    outlet = Outlet([kept.put_lines])
    stop = start_capture(OPTIONS, outlet)
    print("outside")
    with in_run(RUN):
        logging.getLogger("shop").debug("too low")
        logging.getLogger("shop").info("told")
        logging.getLogger("shop.loud").warning("too low")
        logging.getLogger("shop.loud").error("loud")
        print("said")
        print("warned", file=sys.stderr)
        print("no ", end="")
        print("end", end="", flush=True)
        sys.__stdout__.flush()  # type: ignore[union-attr]
        if not os.fork():
            print("forked", flush=True)
            os._exit(0)
        os.wait()
    outlet.drain(10)
    stop()
    for line in kept.lines:
        print(line.printed or logging.getLevelName(line.level), line.text)


def test_lines_that_threads_print_at_the_same_time_stay_whole() -> None:
    kept = Kept()
    outlet = Outlet([kept.put_lines])
    stream = RunStream(io.StringIO(), "stdout", outlet)

    def write(text: str) -> None:
        with in_run(RUN):
            stream.write(text)

    write("a")
    other = threading.Thread(target=write, args=("b\n",))
    other.start()
    other.join()
    write("a\n" + "x" * (MAX_LINE + 1))
    outlet.drain(10)
    assert [line.text for line in kept.lines] == ["b", "aa", "x" * MAX_LINE]


def test_lines_without_an_end_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_BEGUN", 2)
    kept = Kept()
    outlet = Outlet([kept.put_lines])
    stream = RunStream(io.StringIO(), "stdout", outlet)
    for number in range(4):
        with in_run(RUN._replace(invocation_id=str(number))):
            stream.write(f"of {number}")
    outlet.drain(10)
    assert [line.text for line in kept.lines] == ["of 0", "of 1"]


def test_too_many_lines_are_dropped_and_counted() -> None:
    kept, may_go = Kept(), threading.Event()
    outlet = Outlet([lambda lines: may_go.wait(30), kept.put_lines])
    outlet.put_line(printed(RUN, "first"))
    while not outlet.is_busy:
        pass
    for number in range(MAX_LINES + 5):
        outlet.put_line(printed(RUN, str(number)))
    may_go.set()
    outlet.drain(30)
    assert len(kept.lines) == MAX_LINES + 2
    assert kept.lines[-1].text.startswith("5 lines were dropped")


def test_a_sink_that_fails_keeps_nothing_from_the_others() -> None:
    def fail(lines: Sequence[Line]) -> None:
        raise OSError("no space left on device")

    kept = Kept()
    outlet = Outlet([fail, kept.put_lines])
    for text in ("a", "b"):
        outlet.put_line(printed(RUN, text))
        outlet.drain(10)
    assert [line.text for line in kept.lines] == ["a", "b"]


def test_each_agent_has_a_file(tmp_path: Path) -> None:
    out = LogFiles(OPTIONS, str(tmp_path / "logs"), "runner")
    out.put_lines([logged(RUN), printed(RUN, "said"), logged(RunFacts()), logged(RunFacts("../a/b"))])
    out.close()
    pid = os.getpid()
    assert {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()} == {
        f"shop.desk.{pid}.log": "INFO desk hello\nsaid\n",
        f"shop.runner.{pid}.log": "INFO  hello\n",
        f"shop...%2Fa%2Fb.{pid}.log": "INFO ../a/b hello\n",
    }
    assert out.path("desk") == str(tmp_path / "logs" / f"shop.desk.{pid}.log")


def test_a_file_has_an_object_in_each_line_if_that_is_wanted(tmp_path: Path) -> None:
    out = LogFiles(dataclasses.replace(OPTIONS, format="json"), str(tmp_path), "runner")
    run = RUN._replace(app_name="shop", trace_id="ab")
    try:
        raise LookupError("no order")
    except LookupError:
        failed = logging.makeLogRecord(
            {
                "name": "shop.code",
                "msg": "found %s",
                "args": (1,),
                "exc_info": sys.exc_info(),
                "n": 7,
                "levelname": "WARNING",
                "levelno": 30,
            }
        )
    out.put_lines([line_of(failed, run), printed(RUN, "said\nmore")])
    out.close()
    first, second = map(json.loads, Path(out.path("desk")).read_text().splitlines())
    assert first.pop("traceback").endswith("LookupError: no order")
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "WARNING",
        "logger": "shop.code",
        "message": "found 1",
        "n": 7,
        "pid": first["pid"],
        "agent": "desk",
        "user_id": "ada",
        "session_id": "s1",
        "invocation_id": "e-1",
        "app_name": "shop",
        "trace_id": "ab",
    }
    assert (second["logger"], second["message"], second["agent"]) == ("stdout", "said\nmore", "desk")


def test_files_are_bounded_in_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "MAX_BYTES", 1_000)
    out = LogFiles(OPTIONS, str(tmp_path), "runner")
    for number in range(101):
        out.put_lines([logged(RUN, f"{number:090}")])
    names = sorted(path.name.partition(".log")[2] for path in tmp_path.iterdir())
    assert names == ["", ".1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_500
    out.put_lines([logged(RunFacts(f"a{number}")) for number in range(3 * sinks.MAX_OPEN)])
    assert len(list(tmp_path.iterdir())) > sinks.MAX_OPEN
    opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert sum(str(tmp_path) in each for each in opened) == sinks.MAX_OPEN
    out.close()


def test_a_program_gets_records_at_its_own_levels_and_prints(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [logged(RUN, "told"), logged(RUN, "warned", logging.WARNING), printed(RUN, "said"), printed(RUN, "cried", "stderr")]
    logging.getLogger("shop.code").setLevel(logging.WARNING)
    try:
        Replay("shop", "%(message)s", filters=True).put_lines(lines)
        assert [record.getMessage() for record in caplog.records] == ["warned"]
        Replay("shop", "%(message)s", filters=False).put_lines(lines)
        assert [record.getMessage() for record in caplog.records] == ["warned", "told", "warned"]
    finally:
        logging.getLogger("shop.code").setLevel(logging.NOTSET)
    assert caplog.records[0].agent == "desk"  # type: ignore[attr-defined]
    printed_twice = capsys.readouterr()
    assert (printed_twice.out, printed_twice.err) == ("shop.desk: said\n" * 2, "shop.desk: cried\n" * 2)


def test_lines_are_printed_in_no_cell_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    cell: contextvars.ContextVar[str] = contextvars.ContextVar("cell")
    shown = []

    class KernelStream(io.StringIO):
        """As a notebook's kernel has it: a text goes to the cell of the context, and without one to the cell that runs."""

        def write(self, text: str) -> int:
            shown.append((cell.get("running"), text))
            return len(text)

    monkeypatch.setattr(sys, "stdout", KernelStream())
    cell.set("ended")
    Replay("shop", "%(message)s", filters=False).put_lines([printed(RUN, "said")])
    assert shown == [("running", "shop.desk: said\n")]


def test_levels_are_those_of_the_program_unless_a_setting_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("shop.quiet").setLevel(logging.ERROR)
    try:
        options = log_options("shop", Settings())
        assert (options.level, options.levels["shop.quiet"]) == (logging.root.level, logging.ERROR)
        assert options.level_is_programs
    finally:
        logging.getLogger("shop.quiet").setLevel(logging.NOTSET)
    monkeypatch.setenv("RAYGROVE_LOG_LEVEL", "debug")
    options = log_options("shop", Settings())
    assert (options.level, options.levels, options.level_is_programs) == (logging.DEBUG, {}, False)


@pytest.mark.parametrize("wrong", [{"log_level": "LOUD"}, {"log_format": "%(message)"}, {"log_format": "nothing of it"}])
def test_settings_that_are_no_level_and_no_format_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)
