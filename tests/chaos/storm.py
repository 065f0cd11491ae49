"""The people of the simulations in a deployment on Ray whose processes are lost, and what is impossible in its history."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from actors import Event
from actors.errors import RaygroveError
from actors.messages.session import SessionKey
from runtime.driver.runtime import Runtime
from runtime.stores.sql.sessions import SqlSessionStore
from tests.chaos.storm_program import APP, Program, start_program
from tests.model.asking import perform
from tests.model.history import Ask, History
from tests.model.journal import Journal, read_history
from tests.model.judge import problems
from tests.simulation.agents import build
from tests.simulation.invariants import said_problems
from tests.simulation.play import found_in
from tests.simulation.player import Driver, Player
from tests.simulation.scenarios import Scenario
from tests.support.runtimes import Deploy

SOON_S = 0.5
"""A fault comes so soon after a request, so that there is something to lose."""


LOOK_S = 0.05
"""Between two looks at where agents live."""

STOPPED_S = (1.0, 8.0)
"""How long a stopped process stays so."""


class Faults:
    """Has faults happen.

    Args:
        rt: a Runtime of the deployment, which is asked where its actors live.
        history: where losses are noted.

    Attributes:
        happened: how often each kind of fault has.
    """

    def __init__(self, rt: Runtime, history: History, chance: random.Random) -> None:
        self._rt = rt
        self._history = history
        self._chance = chance
        self.happened: Counter[str] = Counter()

    async def strike(self, who: str, how: str) -> None:
        """Kill or stop the Runner, the Session actor, or the process of an agent as soon as there is one.

        A Runner or a Session actor that cannot be reached has a fault already.
        """
        pid = 0
        with suppress(RaygroveError, ProcessLookupError):
            while not pid:
                await asyncio.sleep(LOOK_S)
                seen = await self._rt.aio.statistics()
                pids = {name: each.pid for name, each in seen.agents.items()}
                core = {"session": seen.session.pid, "runner": seen.runner.pid}
                pid = core[who] if who in core else self._chance.choice(sorted(pids.values()) or [0])
            # One that lives nowhere may have moved in just before. With a Runner its agents are lost.
            lost = [name for name, each in pids.items() if each in (pid, 0) or who == "runner"]
            self._history.lose(who, lost)
            os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            self.happened[f"{how} {who}"] += 1
            try:
                await asyncio.sleep(self._chance.uniform(*STOPPED_S) if how == "stop" else 0)
            finally:
                os.kill(pid, signal.SIGCONT)


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """What is played.

    Attributes:
        scenario: whose agents are deployed, and whose options all turns have.
        people: what each user does, by the turns of these.
        faults: what happens, one after the other.
        every: so many requests come between two faults.
        programs: so many processes ask; 0: it is this one.
        pace: of a second of the scenarios so much passes.
        within_s: it has to be over by then.
    """

    scenario: Scenario
    people: Sequence[Scenario]
    faults: Iterator[tuple[str, str]]
    every: int
    programs: int = 0
    pace: float = 1.0
    within_s: float = 600.0


class Here:
    """A program in this process, which is not lost."""

    name = "here"
    is_dead = False

    def __init__(self, rt: Runtime, journal: Journal) -> None:
        self._rt = rt
        self._journal = journal

    async def do(self, what: str, **of: Any) -> Ask:
        """Ask for something, and wait for what comes of it."""
        ask = self._journal.ask(what, program=self.name, **of)
        await perform(self._rt, self._journal, ask)
        return ask


class Weather:
    """Has a fault happen now and then while programs ask."""

    def __init__(self, storm: Storm, rt: Runtime, folder: Path, chance: random.Random) -> None:
        self._storm, self._chance, self._folder = storm, chance, folder
        self._journal = Journal(folder)
        self._address = rt.address or ""
        self._here = Here(rt, self._journal)
        self._programs: list[Program] = []
        self._striking: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self._asked = 0
        self.faults = Faults(rt, self._journal, chance)

    async def start(self) -> None:
        self._programs = [await start_program(self._address, self._folder) for _ in range(self._storm.programs)]

    def driver(self) -> Driver:
        """A program, and from time to time a fault."""
        self._asked += 1
        if self._asked % self._storm.every == 0 and (fault := next(self._storm.faults, None)) is not None:
            self._striking.append(asyncio.create_task(self._strike(*fault)))
        return self._chance.choice(self._programs) if self._programs else self._here

    async def _strike(self, who: str, how: str) -> None:
        async with self._one_at_a_time:
            await asyncio.sleep(self._chance.uniform(0, SOON_S))
            if who == "program":
                await self._replace_program()
            else:
                await self.faults.strike(who, how)

    async def _replace_program(self) -> None:
        place = self._chance.randrange(len(self._programs))
        other = await start_program(self._address, self._folder)
        lost, self._programs[place] = self._programs[place], other
        self._journal.lose(lost.name)
        lost.kill()
        self.faults.happened["kill program"] += 1

    async def end(self) -> None:
        """No more faults: have the programs leave."""
        for striking in self._striking:
            striking.cancel()
        await asyncio.gather(*self._striking, return_exceptions=True)
        assert [await each.end() for each in self._programs] == [0] * len(self._programs)

    def kill(self) -> None:
        """Have nothing be left of the programs."""
        for each in self._programs:
            each.kill()


class User(Player):
    """Plays a scenario in a deployment on Ray."""

    def __init__(self, number: int, storm: Storm, weather: Weather) -> None:
        super().__init__(storm.people[number], f"ada{number}", f"turn-of-{number}", storm.pace)
        self._weather = weather

    def driver(self) -> Driver:
        return self._weather.driver()

    async def log(self) -> list[Event]:
        while not (read := await self._ask(self.driver(), "get")).ended:
            pass
        return list(read.result.events) if read.result is not None else []

    async def converse(self) -> None:
        """Play the scenario, and one turn more, which has to work."""
        await self.play()
        await self.ask(self.turn(len(self._scenario.turns)), "hi")
        await self.log()


class Passed(msgspec.Struct, kw_only=True):
    """What a storm has left: its history, what is wrong in it, and the figures."""

    history: History
    wrong: Sequence[str]
    figures: str


def read_whole(notes: Path, folder: Path, app: str) -> History:
    """What all processes have noted, with what a fresh reader finds of all sessions in the store of a folder."""
    history, store = read_history(notes), SqlSessionStore(f"sqlite:///{folder}/sessions.db")
    store.open()
    for session in sorted({(ask.user, each) for ask in history.asks for each in (ask.session, ask.given.get("fork_id")) if each}):
        history.found[session] = found_in(store, SessionKey(app, *session))
    store.close()
    return history


def play_storm(storm: Storm, address: str, folder: Path, seed: int) -> Passed:
    """Play a storm."""
    return asyncio.run(_play_storm(storm, address, folder, random.Random(f"storm {seed}")))


async def _play_storm(storm: Storm, address: str, folder: Path, chance: random.Random) -> Passed:
    notes, deploy = folder / "notes", Deploy("ray", folder)
    notes.mkdir()
    root = build(storm.scenario.root, partial(Journal, notes))
    async with deploy(root, app_name=APP, address=address, detached=storm.programs > 0) as rt:
        weather = Weather(storm, rt, notes, chance)
        users = [User(number, storm, weather) for number in range(len(storm.people))]
        wrong = []
        try:
            await weather.start()
            async with asyncio.timeout(storm.within_s):
                await asyncio.gather(*(user.converse() for user in users))
                await weather.end()
        except TimeoutError:
            wrong = [f"it is not over after {storm.within_s:g} s"]
        finally:
            weather.kill()
            await rt.aio.shutdown()
    history = read_whole(notes, folder, APP)
    wrong += [*problems(history), *said_problems(storm.scenario, history, has_faults=bool(history.lost))]
    happened = ", ".join(f"{how} {often} times" for how, often in sorted(weather.faults.happened.items()))
    return Passed(history=history, wrong=wrong, figures=f"{len(history.asks)} requests; {happened}")
