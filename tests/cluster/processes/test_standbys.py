"""A Runner or a Session actor with a standby: whichever of their processes are killed, turns go on, and nothing is done twice."""

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
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.machine.listening import ports_of
from tests.support.machine.processes import is_running, kill, stop
from tests.support.models.greeter import GREETING, Greeter
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

pytestmark = pytest.mark.sampled(2, of="module")

PROCESSES = {"runner": 2, "session": 1}
"""How many processes stand by: that of a Runner has one for agents."""

GREETED = [("user", GREETING), ("root", "at once")]

of_both = pytest.mark.parametrize("kind", PROCESSES)
of_runner = pytest.mark.parametrize("desk", ["runner"], indirect=True)


def with_standbys(kind: str, **options: Any) -> Settings:
    """Settings of a deployment whose actor of a kind has a standby."""
    return Settings(**{"spare_hosts": 1, f"standby_{kind}s": True, **options})


class Desk:
    """A deployment whose actor of a kind has a standby."""

    def __init__(self, rt: Runtime, model: Greeter, kind: str) -> None:
        self.rt = rt
        self.model = model
        self._kind = kind
        self._turns = 0

    def actor(self) -> Statistics:
        return getattr(self.rt.statistics(), self._kind)  # type: ignore[no-any-return]

    def with_standby(self, number: int = 1) -> Statistics:
        """The actor's figures, when processes stand by for it, or for each of several."""
        until(lambda: len(pids := self.actor().standby_pids) == number * PROCESSES[self._kind] and all(map(is_running, pids)))
        return self.actor()

    def kill_in_a_turn(self, *pids: int) -> None:
        """Kill processes while a model is waited for, and end the turn."""
        self._turns += 1
        session = f"killed-{self._turns}"
        turn = self.rt.run(user_id="ada", session_id=session, message="go")
        self.model.wait_until_called()
        until(lambda: self.rt.turns.list("ada", session, "running"))
        seen = self.rt.statistics()
        kill(*pids)
        if {seen.runner.pid, *(part.pid for part in seen.runner.parts)} & {*pids}:
            # The agent's process ends with its Runner, a little later. Until then its call waits at the same gate.
            self.model.wait_until_called()
            until(lambda: not is_running(seen.agents["root"].pid))
        self.model.release()
        assert turn.result().text == "ok"
        assert author_texts(stored(self.rt, session)) == [("user", "go"), ("root", "ok")]


@pytest.fixture(scope="module", params=PROCESSES)
def desk(request: pytest.FixtureRequest, local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    model = Greeter(folder, "ok")
    settings = with_standbys(request.param)
    with Deploy("ray", folder)(LlmAgent(name="root", model=model), app_name=f"standby-{request.param}", settings=settings) as rt:
        yield Desk(rt, model, request.param)


def test_the_standby_takes_the_place_and_the_lost_one_stands_by_from_then_on(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid)
    after = desk.with_standby()
    assert after.pid == before.standby_pids[0]
    assert not {*after.standby_pids} & {before.pid, *before.standby_pids}
    desk.kill_in_a_turn(after.pid)
    assert desk.with_standby().pid == after.standby_pids[0]


@of_runner
def test_the_process_that_the_standby_has_for_agents_has_loaded_their_code(desk: Desk) -> None:
    _, for_agents = desk.with_standby().standby_pids
    assert for_agents in desk.model.loaded_by()


@of_runner
def test_a_process_that_stands_by_listens_already(desk: Desk) -> None:
    leads = desk.with_standby()
    assert len(ports_of([leads.standby_pids[0]])) == len(ports_of([leads.pid]))


def test_a_killed_standby_disturbs_no_turn_and_another_one_stands_by(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.standby_pids[0])
    until(lambda: not {*desk.with_standby().standby_pids} & {*before.standby_pids})
    assert desk.actor().pid == before.pid


def test_both_are_lost_together(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, before.standby_pids[0])
    assert desk.with_standby().pid not in {before.pid, *before.standby_pids}


@of_runner
def test_the_process_that_the_standby_has_for_agents_is_lost_with_the_runner(desk: Desk) -> None:
    before = desk.with_standby()
    desk.kill_in_a_turn(before.pid, before.standby_pids[1])
    assert desk.with_standby().pid == before.standby_pids[0]


@pytest.mark.full
def test_the_runner_and_the_session_actor_are_lost_together(desk: Desk) -> None:
    before, seen = desk.with_standby(), desk.rt.statistics()
    desk.kill_in_a_turn(seen.runner.pid, seen.session.pid)
    assert desk.with_standby().pid == before.standby_pids[0]


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
    assert desk.actor().pid == before.standby_pids[0]


@pytest.mark.full
@pytest.mark.parametrize("desk", ["session"], indirect=True)
def test_the_session_actor_is_lost_again_and_again_under_turns(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(run_turn, desk.rt, GREETING, f"again-{number % 40}") for number in range(400)]
        for _ in range(3):
            kill(desk.with_standby().pid)
        assert all(author_texts(each.result(120))[-1] == GREETED[-1] for each in asked)
    assert [author_texts(stored(desk.rt, f"again-{number}")) for number in range(40)] == [GREETED * 10] * 40


@pytest.mark.full
def test_one_that_is_stopped_for_a_while_is_not_replaced(desk: Desk) -> None:
    before = desk.with_standby()
    stop(before.pid)
    asking = ThreadPoolExecutor(1).submit(run_turn, desk.rt, GREETING, "stopped")
    # Connections to it break meanwhile.
    assert not threading.Event().wait(8)
    assert not asking.done()
    os.kill(before.pid, signal.SIGCONT)
    assert author_texts(asking.result(60)) == GREETED[1:]
    assert desk.actor().pid == before.pid


@of_both
def test_closing_ends_the_standby_too_and_resumes_no_turn(local_ray: str, tmp_path: Path, kind: str) -> None:
    model = Greeter(tmp_path, "ok")
    agent = LlmAgent(name="root", model=model)
    with Deploy("ray", tmp_path)(agent, app_name=f"closed-{kind}", settings=with_standbys(kind)) as rt:
        left = Desk(rt, model, kind).with_standby()
        rt.run(user_id="ada", session_id="s", message="go")
        model.wait_until_called()
    assert not any(map(is_running, (left.pid, *left.standby_pids)))


@of_both
def test_an_update_of_before_holds_when_the_standby_leads(local_ray: str, tmp_path: Path, kind: str) -> None:
    def root(answer: str) -> LlmAgent:
        return LlmAgent(name="root", model=PatternModel([], default=answer))

    with Deploy("ray", tmp_path)(root("old"), app_name=f"told-{kind}", settings=with_standbys(kind)) as rt:
        desk = Desk(rt, Greeter(tmp_path, "ok"), kind)
        before = desk.with_standby()
        rt.update(root("new"))
        kill(before.pid)
        assert author_texts(run_turn(rt, "hello"))[-1] == ("root", "new")
        assert desk.with_standby().pid == before.standby_pids[0]
        with Runtime.connect(f"told-{kind}", settings=Settings()) as joined:
            # It has to find the one that leads, which is not the one that was started first.
            assert author_texts(run_turn(joined, "hello", "joined"))[-1] == ("root", "new")
            assert getattr(joined.statistics(), kind).pid == before.standby_pids[0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, options) for kind in PROCESSES for options in ({"transport": "ray"}, {"runners": 2})),
        ("session", {"standby_runners": True}),
    ],
    ids=str,
)
def test_turns_go_on_however_messages_travel_and_whatever_runners_there_are(
    local_ray: str, tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    model, settings = Greeter(tmp_path, "ok"), with_standbys(kind, **options)
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name=f"ways-{kind}", settings=settings) as rt:
        desk = Desk(rt, model, kind)
        for _ in range(2):
            before = desk.with_standby(settings.runners if kind == "runner" else 1)
            desk.kill_in_a_turn(*([part.pid for part in before.parts] or [before.pid]))
            # Ray tells of a loss late: over Ray, the lost process may be back before.
            after = desk.actor()
            leading = {part.pid for part in after.parts} or {after.pid}
            assert leading <= {*before.standby_pids} or settings.transport == "ray"


@pytest.mark.full
def test_each_of_several_session_actors_has_a_standby(local_ray: str, server: str, tmp_path: Path) -> None:
    agent = LlmAgent(name="root", model=Greeter(tmp_path, "ok"))
    settings = with_standbys("session", session_shards=2)
    with Deploy("ray", tmp_path)(agent, app_name="shards-s", session_store=server, memory_store=None, settings=settings) as rt:
        until(lambda: len(rt.statistics().session.standby_pids) == 2)
        before = rt.statistics().session
        sessions = [f"s-{number}" for number in range(20)]
        assert all(author_texts(run_turn(rt, GREETING, each)) == GREETED[1:] for each in sessions)
        kill(*(part.pid for part in before.parts))
        assert all(author_texts(run_turn(rt, GREETING, each)) == GREETED[1:] for each in sessions)
        assert [author_texts(stored(rt, each)) for each in sessions] == [GREETED * 2] * 20
        assert {part.pid for part in rt.statistics().session.parts} == {*before.standby_pids}
