"""Turns are printed again when they have changed, and once more when they do not fit any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.frontends.console.bulk.watching import TurnWatch, watch_turns
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, run_turn


def test_a_turn_is_told_when_it_begins_and_when_it_has_ended(tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "done")
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=model)) as rt:
        watch = TurnWatch(rt, lambda: rt.turns.list(state="running"))
        assert watch.changed() == []
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        model.wait_until_called()
        assert [each.state for each in watch.changed()] == ["running"]
        assert watch.changed() == []
        model.release()
        turn.result()
        assert [each.state for each in watch.changed()] == ["finished"]
        assert watch.changed() == []


def test_it_goes_on_until_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hi"))) as rt:
        naps: list[float] = []

        def nap(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 3:
                raise KeyboardInterrupt
            run_turn(rt, "hi", invocation_id=f"e-{len(naps)}")

        watch_turns(TurnWatch(rt, rt.turns.list), json=False, sleep=nap)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["INVOCATION", "e-1", "e-2"]
        naps.clear()
        watch_turns(TurnWatch(rt, lambda: rt.turns.list(limit=1)), json=True, sleep=nap)
        assert '"invocationId":"e-2"' in capsys.readouterr().out.splitlines()[0]
