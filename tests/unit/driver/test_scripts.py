"""Inputs of a map, which make its turns, and how far it is."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from actors.errors import InvalidIdError, InvalidMessageError, NotEncodableError
from runtime.driver.scripts import progress
from runtime.driver.scripts.inputs import InputReader, MapInput
from runtime.driver.scripts.progress import Bar, Counts, Lines, NotebookLine, display, duration


def read(*given: object, name: str = "m") -> list[MapInput]:
    reader = InputReader(name, "ada")
    return [reader.read(index, each) for index, each in enumerate(given)]


def test_the_id_comes_from_the_name_and_from_what_the_input_says_not_from_its_place() -> None:
    first, second = read("a", "b")
    other_way, *_ = read("b", "a")
    assert second.invocation_id == other_way.invocation_id
    assert first.invocation_id != second.invocation_id
    assert read("a", name="n")[0].invocation_id == "n-" + first.invocation_id.removeprefix("m-")
    # Stored with the turns of earlier runs, so it must never change.
    assert first.invocation_id == "m-2f761a32dc274919228dcc11"


def test_all_that_an_input_says_counts_and_the_order_of_keys_does_not() -> None:
    base = {"message": "a", "state_delta": {"x": 1, "y": 2}}
    ids = [
        each.invocation_id
        for each in read(
            base,
            {**base, "state_delta": {"x": 1}},
            {**base, "user_id": "bob"},
            {**base, "session_id": "s"},
            {**base, "message": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}},
        )
    ]
    assert len(set(ids)) == 5
    assert read({"state_delta": {"y": 2, "x": 1}, "message": "a"})[0].invocation_id == ids[0]


def test_equal_inputs_are_told_apart_by_their_count() -> None:
    ids = [each.invocation_id for each in read("a", "b", "a", "a")]
    assert ids[2:] == [f"{ids[0]}-2", f"{ids[0]}-3"]


def test_attempts_are_turns_in_sessions_of_their_own_unless_the_input_names_one() -> None:
    own, given = read("a", {"message": "a", "session_id": "s", "invocation_id": "order-1"})
    assert own.ids(1) == (own.invocation_id, own.invocation_id)
    assert own.ids(2) == (f"{own.invocation_id}/2",) * 2
    assert [given.ids(attempt) for attempt in (1, 3)] == [("s", "order-1"), ("s", "order-1/3")]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"mesage": "a"}, InvalidMessageError, "no field 'mesage'. Did you mean 'message'?"),
        ({}, InvalidMessageError, "needs a message"),
        (7, InvalidMessageError, "not int"),
        ({"message": "a", "state_delta": 7}, NotEncodableError, "mapping"),
        ({"message": "a", "state_delta": {"x": object()}}, NotEncodableError, "object"),
        ({"message": "a", "invocation_id": " "}, InvalidIdError, "invocation id"),
    ],
)
def test_a_wrong_input_is_refused_by_what_is_wrong(given: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read(given)


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
