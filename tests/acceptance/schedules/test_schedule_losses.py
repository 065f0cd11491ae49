"""Actors are lost around due times: each due time makes its turn, and makes it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import ScheduleNotFoundError
from actors.layers.schedules.messages import AwaitDue, WatchSchedules
from actors.messages import protocol as p
from actors.testing import PatternModel
from runtime import Runtime
from runtime.testing import FrozenClock
from tests.acceptance.schedules.test_schedules import Talker
from tests.support.fixtures.lossy_engine import LossyEngine, Process, lossy_runtime
from tests.support.polling import until
from tests.support.runtimes import stored

MINUTES = 4
SESSIONS = ("s1", "s2")
AT: tuple[type[p.Message], ...] = (AwaitDue, p.OpenTurn, p.Invoke, p.Append)


class Losses:
    """Loses actors at the first, the second … message of a kind."""

    def __init__(self, engine: LossyEngine, who: str, at: type[p.Message], number: int, *, handled: bool) -> None:
        self._engine = engine
        self._who = who.split(" and ")
        self._at = at
        self._left = number
        self._handled = handled

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, self._at) and handled == self._handled:
            self._left -= 1
            if self._left == 0:
                await self._engine.lose(*self._who)


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


def told(rt: Runtime, session_id: str) -> list[tuple[str, list[str]]]:
    """The turns of a session in order: the due time of each, and what was said in it."""
    turns: dict[str, list[str]] = {}
    for event in stored(rt, session_id):
        turns.setdefault(event.invocation_id, []).append(event.text)
    return [(invocation_id.rpartition("-")[2], said) for invocation_id, said in turns.items()]


def play(folder: Path, who: str, at: type[p.Message], number: int, *, handled: bool) -> list[str]:
    clock = FrozenClock()
    rt, engine = lossy_runtime(root(), folder, clock=clock)
    with rt:
        rt._client.run(engine.runner.ask(WatchSchedules()))
        for session in SESSIONS:
            rt.schedules.create(session, user_id="ada", message="tick", every=60)
        engine.meddler = Losses(engine, who, at, number, handled=handled)
        # A Runner that cannot be heard asks again within seconds.
        clock.advance(MINUTES * 60 + 50)
        for session in SESSIONS:
            turns = told(rt, session)
            assert [said for _, said in turns] == [["tick", "ok"]] * MINUTES
            assert len({due for due, _ in turns}) == MINUTES
            assert rt.schedules.get(session, user_id="ada").turns == MINUTES
        return engine.lost


@pytest.mark.sampled(4, full=4)
@pytest.mark.parametrize("at", AT, ids=lambda at: at.__name__)
@pytest.mark.parametrize("who", ["session", "runner", "runner and session"])
def test_whichever_actor_is_lost_each_due_time_makes_one_turn(tmp_path: Path, who: str, at: type[p.Message]) -> None:
    for handled in (False, True):
        for number in (1, 2, 4):
            folder = tmp_path / f"{handled}-{number}"
            folder.mkdir()
            assert play(folder, who, at, number, handled=handled)


def test_a_due_time_that_was_refused_and_is_still_due_waits_for_no_other_turn(tmp_path: Path) -> None:
    """As when it was about to begin while its schedule was being paused, which the store then refused."""
    talker, refused = Talker(), list[str]()

    async def refuse(sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, p.OpenTurn) and message.due is not None and message.key.session == "s2" and not refused:
            refused.append(message.due.name)
            raise ScheduleNotFoundError(message.due.name, "ada")

    clock = FrozenClock()
    rt, engine = lossy_runtime(talker.agent(), tmp_path, clock=clock)
    with rt:
        rt._client.run(engine.runner.ask(WatchSchedules()))
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        for session in SESSIONS:
            rt.schedules.create(session, user_id="ada", message="tick", every=60)
        engine.meddler = refuse
        # It is looked at again within a second.
        clock.advance(65)
        until(lambda: [said for _, said in told(rt, "s2")] == [["tick", "ok"]])
        assert refused == ["s2"]
        rt._client.call_soon(talker.gate.set)
        turn.result()
