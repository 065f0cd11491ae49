"""Many turns: acted on one by one, and watched while they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer

from actors import LlmAgent
from actors.errors import RequestError
from actors.messages.turn_info import TurnInfo
from actors.testing import PatternModel
from runtime.driver.turns.bulk import AT_ONCE, BulkReport, BulkStep
from runtime.frontends.console import bulk
from runtime.frontends.console.bulk import TURN_COLUMNS, WIDTHS, Action, TurnWatch, act
from runtime.frontends.console.output import Changes, WatchedLine, follow
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, run_turn

Do = Callable[[Sequence[TurnInfo]], BulkReport[TurnInfo]]


def turns(number: int) -> list[TurnInfo]:
    return [TurnInfo(user_id="ada", session_id="s1", invocation_id=f"e-{each}", state="running") for each in range(1, number + 1)]


def all_done(some: Sequence[TurnInfo]) -> BulkReport[TurnInfo]:
    return BulkReport(steps=[BulkStep(of=each) for each in some])


def never(some: Sequence[TurnInfo]) -> BulkReport[TurnInfo]:
    raise AssertionError(some)


def action(do: Do = all_done) -> Action[TurnInfo]:
    def done(step: BulkStep[TurnInfo]) -> tuple[str, dict[str, object]]:
        return f"{step.of.invocation_id} is cancelled", {"id": step.of.invocation_id}

    return Action("cancel", "cancelled", ("TURN", "USER"), lambda each: (each.invocation_id, each.user_id), do, done)


def test_a_dry_run_shows_all_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert act(action(never), turns(2), dry_run=True, yes=True, json=False) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("TURN\tUSER\ne-1\tada\ne-2\tada\n", "2 turns would be cancelled\n")
    assert act(action(never), turns(1), dry_run=True, yes=False, json=True) == 0
    shown = capsys.readouterr()
    assert (json.loads(shown.out), shown.err) == ({"turn": "e-1", "user": "ada"}, "1 turn would be cancelled\n")


def test_nothing_that_fits_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert act(action(never), [], dry_run=False, yes=False, json=False) == 0
    assert capsys.readouterr().err == "no turn fits: nothing is cancelled\n"


def test_a_person_is_asked_and_without_one_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = turns(bulk.SHOWN + 2)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(RequestError, match="22 turns would be cancelled: look with --dry-run, and give --yes"):
        act(action(never), many, dry_run=False, yes=False, json=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def says(answer: bool) -> Callable[[str], bool]:
        def confirm(question: str) -> bool:
            asked.append(question)
            return answer

        return confirm

    monkeypatch.setattr(typer, "confirm", says(False))
    assert act(action(never), many, dry_run=False, yes=False, json=False) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + bulk.SHOWN
    assert shown.err == "and 2 more: --dry-run shows all\nnothing is cancelled\n"
    monkeypatch.setattr(typer, "confirm", says(True))
    assert act(action(), many[:1], dry_run=False, yes=False, json=False) == 0
    assert asked == ["Cancel 22 turns?", "Cancel 1 turn?"]


def test_what_cannot_be_done_is_told_and_the_rest_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    def odd(some: Sequence[TurnInfo]) -> BulkReport[TurnInfo]:
        wrong = RequestError("it has ended\nalready")
        return BulkReport(steps=[BulkStep(of=each, error=wrong if each.invocation_id == "e-3" else None) for each in some])

    assert act(action(odd), turns(40), dry_run=False, yes=True, json=True) == 1
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == [f"e-{each}" for each in range(1, 41) if each != 3]
    assert shown.err == "e-3 ada: it has ended already\n"
    assert act(action(odd), turns(40), dry_run=False, yes=True, json=False) == 1
    assert capsys.readouterr().err.endswith("39 turns cancelled, 1 not\n")


def test_after_an_interruption_no_more_are_begun(capsys: pytest.CaptureFixture[str]) -> None:
    begun: list[TurnInfo] = []

    def interrupted(some: Sequence[TurnInfo]) -> BulkReport[TurnInfo]:
        if begun:
            raise KeyboardInterrupt
        begun.extend(some)
        return all_done(some)

    assert act(action(interrupted), turns(100), dry_run=False, yes=True, json=False) == 130
    shown = capsys.readouterr()
    assert shown.err == f"interrupted: {AT_ONCE} of 100 turns cancelled. The same command goes on with the rest\n"
    assert len(shown.out.splitlines()) == len(begun) == AT_ONCE


def test_a_turn_is_told_when_it_begins_and_when_it_has_ended(tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "done")
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=model)) as rt:
        changes = Changes(TurnWatch(rt, lambda: rt.turns.list(state="running")).lines)

        def changed() -> list[str]:
            return [line.cells[4] for line in changes.new()]

        assert changed() == []
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        model.wait_until_called()
        assert changed() == ["running"]
        assert changed() == []
        model.release()
        turn.result()
        assert changed() == ["finished"]
        assert changed() == []


def test_it_goes_on_until_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        naps: list[float] = []

        def nap(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 3:
                raise KeyboardInterrupt
            run_turn(rt, "hi", invocation_id=f"e-{len(naps)}")

        follow(TURN_COLUMNS, TurnWatch(rt, rt.turns.list).lines, json=False, widths=WIDTHS, sleep=nap)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["INVOCATION", "e-1", "e-2"]
        naps.clear()
        follow(TURN_COLUMNS, TurnWatch(rt, lambda: rt.turns.list(limit=1)).lines, json=True, sleep=nap)
        assert '"invocationId":"e-2"' in capsys.readouterr().out.splitlines()[0]


def test_a_line_is_printed_again_when_what_it_shows_is_another(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([[("a", "1", 1.0), ("b", "1", 1.0)], [("a", "1", 2.0), ("b", "22", 2.0)], [("b", "22", 3.0), ("c", "1", 3.0)]])

    def look() -> list[WatchedLine]:
        try:
            return [WatchedLine(name, count, (name, count, str(age)), {name: count}) for name, count, age in next(looks)]
        except StopIteration:
            raise KeyboardInterrupt from None

    follow(("NAME", "COUNT", "AGE"), look, json=False, sleep=lambda _: None)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  COUNT  AGE",
        "a     1      1.0",
        "b     1      1.0",
        "b     22     2.0",
        "c     1      3.0",
    ]
