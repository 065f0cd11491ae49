"""Turns are printed again when they have changed, and once more when they do not fit any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.frontends.console.bulk import TURN_COLUMNS, WIDTHS, TurnWatch
from runtime.frontends.console.output import Changes, WatchedLine, follow
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, run_turn


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
