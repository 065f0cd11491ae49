from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.driver.scripts import progress
from runtime.driver.scripts.progress import Bar, Counts, Lines, NotebookLine, display, duration


def counts(**given: int) -> Counts:
    made = Counts("nightly", given.pop("total", None), **given)
    made.began_s = time.monotonic() - 10
    return made


def test_a_line_has_rate_failures_and_what_is_left() -> None:
    line = counts(total=1_000, done=300, failed=2, repeated=100).line()
    assert line.startswith("nightly: 300/1,000 30 %, 20.0/s, 2 failed, 100 from before, 35 s left")


def test_without_a_total_nothing_is_left_to_say() -> None:
    assert counts(done=10).line() == "nightly: 10, 1.0/s, 0 failed"
    assert counts(total=10, done=0).line() == "nightly: 0/10 0 %, 0.0/s, 0 failed"
    assert counts(total=10, done=10).line() == "nightly: 10/10 100 %, 1.0/s, 0 failed"
    assert "from before" in counts(total=0, done=0, repeated=1).line()


def test_times_are_for_people() -> None:
    assert [duration(each) for each in (0.4, 59, 61, 3_599, 8_100)] == ["0 s", "59 s", "1:01 min", "59:59 min", "2:15 h"]


def test_it_is_silent_where_no_terminal_is_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert display(None, counts()) is None
    assert display(False, counts()) is None
    lines = display(True, counts())
    assert isinstance(lines, Lines)
    lines.update(counts(done=1))
    lines.end_display(counts(done=2))
    assert capsys.readouterr().err == "nightly: 2, 0.2/s, 0 failed\n"


def test_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    Lines().update(counts(done=1))
    assert capsys.readouterr().err == "nightly: 1, 0.1/s, 0 failed\n"


def test_a_notebook_has_one_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, Any]] = []

    def show(data: Any, **options: Any) -> Any:
        assert options == {"raw": True, "display_id": True}
        shown.append(("shown", data["text/plain"]))
        return SimpleNamespace(update=lambda data, raw: shown.append(("replaced", data["text/plain"])))

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=show))
    line = display(None, counts())
    assert isinstance(line, NotebookLine)
    line.update(counts(done=1))
    line.update(counts(done=2))
    line.end_display(counts(done=3))
    assert [how for how, _ in shown] == ["shown", "replaced"]
    assert shown[1][1].startswith("nightly: 3,")
    del shell.kernel
    assert display(None, counts()) is None


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    bar = display(None, counts(total=10))
    assert isinstance(bar, Bar)
    bar.update(counts(total=10, done=5))
    bar.end_display(counts(total=10, done=10))
    assert "nightly: 10/10 100 %" in capsys.readouterr().err
