"""Acting on many turns: shown, asked, done side by side, told one by one, and gone on with after an interruption."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
import typer

from actors.errors import RequestError
from runtime.frontends.console.bulk import acting
from runtime.frontends.console.bulk.acting import Action, Done, act


def action(do: Callable[[str], Done] | None = None) -> Action[str]:
    def cancelled(each: str) -> Done:
        return Done(f"{each} is cancelled", {"id": each})

    return Action("cancel", "cancelled", "turn", ("TURN", "USER"), lambda each: (each, "ada"), do or cancelled)


def test_a_dry_run_shows_all_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def never(each: str) -> Done:
        raise AssertionError(each)

    assert act(action(never), ["e-1", "e-2"], dry_run=True, yes=True, json=False) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("TURN\tUSER\ne-1\tada\ne-2\tada\n", "2 turns would be cancelled\n")
    assert act(action(never), ["e-1"], dry_run=True, yes=False, json=True) == 0
    shown = capsys.readouterr()
    assert (json.loads(shown.out), shown.err) == ({"turn": "e-1", "user": "ada"}, "1 turn would be cancelled\n")


def test_nothing_that_fits_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert act(action(), [], dry_run=False, yes=False, json=False) == 0
    assert capsys.readouterr().err == "no turn fits: nothing is cancelled\n"


def test_a_person_is_asked_and_without_one_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [f"e-{number}" for number in range(acting.SHOWN + 2)]
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(RequestError, match="22 turns would be cancelled: look with --dry-run, and give --yes"):
        act(action(), many, dry_run=False, yes=False, json=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def says(answer: bool) -> Callable[[str], bool]:
        def confirm(question: str) -> bool:
            asked.append(question)
            return answer

        return confirm

    monkeypatch.setattr(typer, "confirm", says(False))
    assert act(action(), many, dry_run=False, yes=False, json=False) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + acting.SHOWN
    assert shown.err == "and 2 more: --dry-run shows all\nnothing is cancelled\n"
    monkeypatch.setattr(typer, "confirm", says(True))
    assert act(action(), many[:1], dry_run=False, yes=False, json=False) == 0
    assert asked == ["Cancel 22 turns?", "Cancel 1 turn?"]


def test_what_cannot_be_done_is_told_and_the_rest_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    def odd(each: str) -> Done:
        if each == "e-3":
            raise RequestError("it has ended already")
        return Done(each, {"id": each})

    many = [f"e-{number}" for number in range(40)]
    assert act(action(odd), many, dry_run=False, yes=True, json=True) == 1
    shown = capsys.readouterr()
    assert sorted(json.loads(line)["id"] for line in shown.out.splitlines()) == sorted(set(many) - {"e-3"})
    assert shown.err == "e-3 ada: it has ended already\n"
    assert act(action(odd), many, dry_run=False, yes=True, json=False) == 1
    assert capsys.readouterr().err.endswith("39 turns cancelled, 1 not\n")


def test_after_an_interruption_the_same_command_goes_on_with_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    done: set[str] = set()
    lock = threading.Lock()

    def tells(each: str) -> Done:
        with lock:
            done.add(each)
        return Done(each, {})

    class Interrupted(str):
        """A line at which Ctrl-C comes."""

        def __str__(self) -> str:
            raise KeyboardInterrupt

    def interrupted(each: str) -> Done:
        told = tells(each)
        return Done(Interrupted(each), {}) if each == "e-5" else told

    many = [f"e-{number}" for number in range(200)]
    assert act(action(interrupted), many, dry_run=False, yes=True, json=False) == 130
    assert "of 200 turns cancelled. The same command goes on with the rest" in capsys.readouterr().err
    # No more were begun than were under way.
    assert len(done) < 60
    rest = [each for each in many if each not in done]
    assert act(action(tells), rest, dry_run=False, yes=True, json=False) == 0
    assert done == set(many)


def test_what_shares_a_place_is_done_one_after_the_other_in_its_order() -> None:
    done: dict[str, list[int]] = {"a": [], "b": []}
    busy: set[str] = set()

    def noted(each: tuple[str, int]) -> Done:
        place, number = each
        assert place not in busy
        busy.add(place)
        done[place].append(number)
        busy.remove(place)
        return Done("", {})

    of_places = Action("cancel", "cancelled", "turn", ("TURN",), lambda each: each[:1], noted, lambda each: each[0])
    assert act(of_places, [(place, number) for number in range(50) for place in "ab"], dry_run=False, yes=True, json=True) == 0
    assert done == {"a": list(range(50)), "b": list(range(50))}
