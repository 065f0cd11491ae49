"""A Runner with a standby: whichever of their processes are killed, turns go on, and by one of them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from actors.messages.protocol.statistics import Statistics
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from tests.support.machine.listening import ports_of
from tests.support.machine.processes import is_running, kill, stop
from tests.support.models.greeter import GREETING, Greeter
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

pytestmark = pytest.mark.sampled(2, of="module")

STANDBY = Settings(spare_hosts=1, standby_runners=True)


class Desk:
    """A deployment whose Runner has a standby."""

    def __init__(self, rt: Runtime, model: GatedModel) -> None:
        self.rt = rt
        self.model = model
        self._turns = 0

    def runner(self) -> Statistics:
        return self.rt.statistics().runner

    def with_standby(self) -> Statistics:
        """The Runner's figures, when a process stands by for it, with one for agents."""
        until(lambda: len(pids := self.runner().standby_pids) == 2 and all(map(is_running, pids)))
        return self.runner()

    def kill_in_a_turn(self, *pids: int) -> None:
        """Kill processes while a model is waited for, and end the turn."""
        self._turns += 1
        session = f"killed-{self._turns}"
        turn = self.rt.run(user_id="ada", session_id=session, message="go")
        self.model.wait_until_called()
        until(lambda: self.rt.turns.list("ada", session, "running"))
        agent = self.rt.statistics().agents["root"].pid
        kill(*pids)
        self.model.wait_until_called()
        release_the_other(self.model, agent)
        assert turn.result().text == "ok"
        assert author_texts(stored(self.rt, session)) == [("user", "go"), ("root", "ok")]


def release_the_other(model: GatedModel, lost: int) -> None:
    """Release the call of the process that has taken the place of a lost Runner's agent, whose call waits at the same gate."""
    # It ends with its Runner, a little later.
    until(lambda: not is_running(lost))
    model.release()


@pytest.fixture(scope="module")
def desk(local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    model = Greeter(folder, "ok")
    with Deploy("ray", folder)(LlmAgent(name="root", model=model), app_name="standby", settings=STANDBY) as rt:
        yield Desk(rt, model)


def test_the_standby_goes_on_with_the_turn_and_the_lost_one_stands_by_from_then_on(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid)
    after = desk.with_standby()
    assert after.pid == before.standby_pids[0]
    assert not {*after.standby_pids} & {before.pid, *before.standby_pids}
    desk.kill_in_a_turn(after.pid)
    assert desk.with_standby().pid == after.standby_pids[0]


def test_the_process_that_the_standby_has_for_agents_has_loaded_their_code(desk: Desk) -> None:
    _, for_agents = desk.with_standby().standby_pids
    assert isinstance(desk.model, Greeter)
    assert for_agents in desk.model.loaded_by()


def test_a_process_that_stands_by_listens_already(desk: Desk) -> None:
    leads = desk.with_standby()
    assert len(ports_of([leads.standby_pids[0]])) == len(ports_of([leads.pid]))


def test_a_killed_standby_disturbs_no_turn_and_another_one_stands_by(desk: Desk) -> None:
    before = desk.with_standby()
    turn = desk.rt.run(user_id="ada", session_id="undisturbed", message="go")
    desk.model.wait_until_called()
    kill(before.standby_pids[0])
    desk.model.release()
    assert turn.result().text == "ok"
    until(lambda: not {*desk.with_standby().standby_pids} & {*before.standby_pids})
    assert desk.runner().pid == before.pid


def test_the_runner_and_its_standby_are_lost_together(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, before.standby_pids[0])
    assert desk.with_standby().pid not in {before.pid, *before.standby_pids}


def test_the_process_that_the_standby_has_for_agents_is_lost_with_the_runner(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, before.standby_pids[1])
    assert desk.with_standby().pid == before.standby_pids[0]


@pytest.mark.full
def test_the_runner_is_lost_with_the_session_actor(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, desk.rt.statistics().session.pid)
    assert desk.with_standby().pid == before.standby_pids[0]


def test_messages_that_were_on_their_way_are_answered_once(desk: Desk) -> None:
    before = desk.with_standby()
    sessions = [f"way-{number}" for number in range(20)]
    killed = threading.Event()

    def ask(session: str) -> tuple[str, str]:
        if session == sessions[10]:
            kill(before.pid)
            killed.set()
        return author_texts(run_turn(desk.rt, GREETING, session))[-1]

    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(ask, sessions)) == {("root", "at once")}
    assert killed.is_set()
    for session in sessions:
        assert author_texts(stored(desk.rt, session)) == [("user", GREETING), ("root", "at once")]


@pytest.mark.full
def test_a_runner_that_is_stopped_for_a_while_is_not_replaced(desk: Desk) -> None:
    before = desk.with_standby()
    stop(before.pid)
    asking = ThreadPoolExecutor(1).submit(run_turn, desk.rt, GREETING, "stopped")
    # Connections to it break meanwhile.
    assert not threading.Event().wait(8)
    assert not asking.done()
    os.kill(before.pid, signal.SIGCONT)
    assert author_texts(asking.result(60))[-1] == ("root", "at once")
    assert desk.runner().pid == before.pid


def test_closing_ends_the_standby_too_and_resumes_no_turn(local_ray: str, tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "ok")
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name="closed", settings=STANDBY) as rt:
        desk = Desk(rt, model)
        left = desk.with_standby()
        rt.run(user_id="ada", session_id="s", message="go")
        model.wait_until_called()
    assert not any(map(is_running, (left.pid, *left.standby_pids)))


def test_what_it_was_told_while_it_stood_by_holds_when_it_leads(local_ray: str, tmp_path: Path) -> None:
    def root(answer: str) -> LlmAgent:
        return LlmAgent(name="root", model=PatternModel([], default=answer))

    with Deploy("ray", tmp_path)(root("old"), app_name="told", settings=STANDBY) as rt:
        desk = Desk(rt, GatedModel(tmp_path, "ok"))
        before = desk.with_standby()
        rt.update(root("new"))
        kill(before.pid)
        assert author_texts(run_turn(rt, "hello"))[-1] == ("root", "new")
        after = desk.with_standby()
        assert after.pid == before.standby_pids[0]
        with Runtime.connect("told", settings=Settings()) as joined:
            # It has to find the one that leads, which is not the one that was started first.
            assert author_texts(run_turn(joined, "hello", "joined"))[-1] == ("root", "new")
            assert joined.statistics().runner.pid == after.pid


@pytest.mark.full
@pytest.mark.parametrize("options", [{"transport": "ray"}, {"runners": 2}], ids=["over Ray", "two Runners"])
def test_turns_go_on_however_messages_travel_and_however_many_runners_there_are(
    local_ray: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    model = GatedModel(tmp_path, "ok")
    settings = Settings(spare_hosts=1, standby_runners=True, **options)
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name="ways", settings=settings) as rt:
        number = settings.runners
        for session in ("one", "two"):
            until(lambda: len(pids := rt.statistics().runner.standby_pids) == 2 * number and all(map(is_running, pids)))
            before = rt.statistics().runner
            leaders = [part.pid for part in before.parts] or [before.pid]
            turn = rt.run(user_id="ada", session_id=session, message="go")
            model.wait_until_called()
            until(partial(rt.turns.list, "ada", session, "running"))
            agent = rt.statistics().agents["root"].pid
            kill(*leaders)
            model.wait_until_called()
            release_the_other(model, agent)
            assert turn.result().text == "ok"
            # Ray tells of a loss late: over Ray, the lost process may be back before.
            after = rt.statistics().runner
            leading = {part.pid for part in after.parts} or {after.pid}
            assert leading <= {*before.standby_pids} or settings.transport == "ray"
