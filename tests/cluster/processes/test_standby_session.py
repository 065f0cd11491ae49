"""A Session actor with a standby: whichever of their processes are killed, turns go on, and nothing is stored twice or lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from actors import Event, LlmAgent
from actors.messages.protocol.statistics import Statistics
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from tests.support.machine.processes import is_running, kill, stop
from tests.support.models.greeter import GREETING, Greeter
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

pytestmark = pytest.mark.sampled(2, of="module")

STANDBY = Settings(spare_hosts=1, standby_sessions=True)

GREETED = [("user", GREETING), ("root", "at once")]


class Desk:
    """A deployment whose Session actor has a standby."""

    def __init__(self, rt: Runtime, model: Greeter) -> None:
        self.rt = rt
        self.model = model
        self._turns = 0

    def session(self) -> Statistics:
        return self.rt.statistics().session

    def with_standby(self) -> Statistics:
        """The Session actor's figures, when a process stands by for it."""
        until(lambda: len(pids := self.session().standby_pids) == 1 and all(map(is_running, pids)))
        return self.session()

    def kill_in_a_turn(self, *pids: int) -> None:
        """Kill processes while a model is waited for, and end the turn."""
        self._turns += 1
        session = f"killed-{self._turns}"
        turn = self.rt.run(user_id="ada", session_id=session, message="go")
        self.model.wait_until_called()
        until(lambda: self.rt.turns.list("ada", session, "running"))
        kill(*pids)
        self.model.release()
        assert turn.result().text == "ok"
        assert author_texts(stored(self.rt, session)) == [("user", "go"), ("root", "ok")]


@pytest.fixture(scope="module")
def desk(local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    model = Greeter(folder, "ok")
    with Deploy("ray", folder)(LlmAgent(name="root", model=model), app_name="standby-s", settings=STANDBY) as rt:
        yield Desk(rt, model)


def test_the_standby_takes_the_place_and_the_lost_one_stands_by_from_then_on(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid)
    after = desk.with_standby()
    assert [after.pid] == before.standby_pids
    assert not {*after.standby_pids} & {before.pid, *before.standby_pids}
    desk.kill_in_a_turn(after.pid)
    assert [desk.with_standby().pid] == after.standby_pids


def test_a_killed_standby_disturbs_no_turn_and_another_one_stands_by(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(*before.standby_pids)
    until(lambda: not {*desk.with_standby().standby_pids} & {*before.standby_pids})
    assert desk.session().pid == before.pid


def test_both_are_lost_together(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, *before.standby_pids)
    assert desk.with_standby().pid not in {before.pid, *before.standby_pids}


def test_messages_that_were_on_their_way_are_answered_once(desk: Desk) -> None:
    before = desk.with_standby()
    sessions = [f"way-{number}" for number in range(20)]

    def ask(session: str) -> list[Event]:
        if session == sessions[10]:
            kill(before.pid)
        return run_turn(desk.rt, GREETING, session)

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, sessions))
    assert [author_texts(answer)[-1] for answer in answers] == [GREETED[-1]] * 20
    assert [author_texts(stored(desk.rt, session)) for session in sessions] == [GREETED] * 20
    assert [desk.session().pid] == before.standby_pids


@pytest.mark.full
def test_the_session_actor_is_lost_again_and_again_under_turns(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(run_turn, desk.rt, GREETING, f"again-{number % 40}") for number in range(400)]
        for _ in range(3):
            kill(desk.with_standby().pid)
        assert all(author_texts(each.result(120))[-1] == GREETED[-1] for each in asked)
    assert [author_texts(stored(desk.rt, f"again-{number}")) for number in range(40)] == [GREETED * 10] * 40


@pytest.mark.full
def test_the_session_actor_is_lost_with_the_runner(desk: Desk) -> None:
    before = desk.with_standby()
    turn = desk.rt.run(user_id="ada", session_id="with-runner", message="go")
    desk.model.wait_until_called()
    until(lambda: desk.rt.turns.list("ada", "with-runner", "running"))
    agent = desk.rt.statistics().agents["root"].pid
    kill(before.pid, desk.rt.statistics().runner.pid)
    desk.model.wait_until_called()
    until(lambda: not is_running(agent))
    desk.model.release()
    assert turn.result().text == "ok"
    assert [desk.with_standby().pid] == before.standby_pids


@pytest.mark.full
def test_a_session_actor_that_is_stopped_for_a_while_is_not_replaced(desk: Desk) -> None:
    before = desk.with_standby()
    stop(before.pid)
    asking = ThreadPoolExecutor(1).submit(run_turn, desk.rt, GREETING, "stopped")
    # Connections to it break meanwhile.
    assert not threading.Event().wait(8)
    assert not asking.done()
    os.kill(before.pid, signal.SIGCONT)
    assert author_texts(asking.result(60)) == GREETED[1:]
    assert desk.session().pid == before.pid


def test_closing_ends_the_standby_too(local_ray: str, tmp_path: Path) -> None:
    model = Greeter(tmp_path, "ok")
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name="closed-s", settings=STANDBY) as rt:
        left = Desk(rt, model).with_standby()
    assert not any(map(is_running, (left.pid, *left.standby_pids)))


def test_an_update_of_which_the_standby_was_not_told_holds_when_it_leads(local_ray: str, tmp_path: Path) -> None:
    def root(answer: str) -> LlmAgent:
        return LlmAgent(name="root", model=PatternModel([], default=answer))

    with Deploy("ray", tmp_path)(root("old"), app_name="told-s", settings=STANDBY) as rt:
        until(lambda: rt.statistics().session.standby_pids)
        before = rt.statistics().session
        rt.update(root("new"))
        kill(before.pid)
        assert author_texts(run_turn(rt, "hello"))[-1] == ("root", "new")
        assert [rt.statistics().session.pid] == before.standby_pids
        with Runtime.connect("told-s", settings=Settings()) as joined:
            # It has to find the one that leads, which is not the one that was started first.
            assert author_texts(run_turn(joined, "hello", "joined"))[-1] == ("root", "new")
            assert [joined.statistics().session.pid] == before.standby_pids


@pytest.mark.full
@pytest.mark.parametrize("options", [{"transport": "ray"}, {"runners": 2}, {"standby_runners": True}], ids=str)
def test_turns_go_on_however_messages_travel_and_whatever_runners_there_are(
    local_ray: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    model = Greeter(tmp_path, "ok")
    settings = Settings(spare_hosts=1, standby_sessions=True, **options)
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name="ways-s", settings=settings) as rt:
        desk = Desk(rt, model)
        for _ in range(2):
            before = desk.with_standby()
            desk.kill_in_a_turn(before.pid)
            # Ray tells of a loss late: over Ray, the lost process may be back before.
            assert [desk.session().pid] == before.standby_pids or settings.transport == "ray"


@pytest.mark.full
def test_each_of_several_session_actors_has_a_standby(local_ray: str, server: str, tmp_path: Path) -> None:
    agent = LlmAgent(name="root", model=Greeter(tmp_path, "ok"))
    settings = Settings(spare_hosts=1, standby_sessions=True, session_shards=2)
    with Deploy("ray", tmp_path)(agent, app_name="shards-s", session_store=server, memory_store=None, settings=settings) as rt:
        until(lambda: len(rt.statistics().session.standby_pids) == 2)
        before = rt.statistics().session
        sessions = [f"s-{number}" for number in range(20)]
        assert all(author_texts(run_turn(rt, GREETING, each)) == GREETED[1:] for each in sessions)
        kill(*(part.pid for part in before.parts))
        assert all(author_texts(run_turn(rt, GREETING, each)) == GREETED[1:] for each in sessions)
        assert [author_texts(stored(rt, each)) for each in sessions] == [GREETED * 2] * 20
        assert {part.pid for part in rt.statistics().session.parts} == {*before.standby_pids}
