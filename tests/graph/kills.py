"""Kills processes while programs with graphs run on Ray:

    python -m tests.graph.kills [--engine local] [--adapter] [--standbys] [--every N] [--only NAME …]

Each program is played once undisturbed, and then with the process of an agent, of the Runner and of the Session actor killed at
its first message, its second, and so on, until a play has fewer. The turns, the state and the errors have to be the same, and no
function that has ended is called again. With standbys it is theirs to take the place of the Runner and the Session actor, and
the next play waits until there are new ones. On the local engine actors are lost at each message instead.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, get_args

from actors import Content, Event, FunctionResponse, Part, RunConfig
from actors.errors import RaygroveError
from runtime import Runtime
from runtime.settings import Settings
from tests.graph.kit import Kit
from tests.graph.mortal import Kind, mortal_processes
from tests.graph.play import USER_ID, Shown, start_ray
from tests.graph.programs import PROGRAMS, Notes, Program
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.machine.processes import is_running
from tests.support.polling import until
from tests.support.runtimes import Deploy

LONGEST_S = 300
"""A turn that takes longer hangs."""


class Played(NamedTuple):
    """What came of a play: what users were shown, the state, the errors, when everything was done, and whether one was killed."""

    shown: Any
    begun: Mapping[str, list[float]]
    ended: Mapping[str, float]
    was_killed: bool


class Theatre:
    """Plays one program many times in one deployment, each time in a session of its own."""

    def __init__(self, program: Program, rt: Runtime, notes: Notes, *, standbys: bool = False) -> None:
        self._program = program
        self._rt = rt
        self._notes = notes
        self._standbys = standbys
        self._plays = 0

    def play(self, kind: Kind | None = None, at: int = 0) -> Played:
        """Play it, and kill a process at one of its moments."""
        self._plays += 1
        name = f"play-{self._plays}"
        if self._standbys:
            until(self._has_standbys)
        self._notes.begin(name)
        (self._notes.folder / "plan").write_text(f"{kind} {at}" if kind is not None else "")
        self._rt.sessions.create(USER_ID, name)
        view, turns, raised = Shown(), [], []
        for turn in self._program.turns:
            events: list[Event] = []
            try:
                for event in self._rt.run(
                    user_id=USER_ID, session_id=name, message=_message(turn), run_config=RunConfig(timeout=LONGEST_S)
                ):
                    events.append(event)
            except RaygroveError as error:
                raised.append(f"{type(error).__name__}: {error}".partition("\n")[0])
            turns.append(sorted(json.dumps(each, sort_keys=True) for each in view.of(events)))
        (self._notes.folder / "plan").write_text("")
        session = self._rt.sessions.get(USER_ID, name)
        assert session is not None
        turns_of = list(dict.fromkeys(each.invocation_id for each in session.events))
        numbers = {each: f"{number}:" for number, each in enumerate(turns_of)}
        ended = {
            f"{numbers[each.invocation_id]} {each.node_info.path}": each.timestamp
            for each in session.events
            if each.node_info is not None
        }
        begun = {_numbered(key, numbers): times for key, times in self._notes.read(name).items()}
        shown = {"turns": turns, "raised": raised, "state": dict(session.state)}
        was_killed = (self._notes.folder / f"{name}.killed").exists()
        return Played(shown, begun, ended, was_killed)

    def _has_standbys(self) -> bool:
        figures = self._rt.statistics()
        # That of the Runner has a process for agents as well.
        standbys = [*figures.session.standby_pids, *figures.runner.standby_pids]
        return len(standbys) == 3 and all(map(is_running, standbys))


def _numbered(key: str, numbers: Mapping[str, str]) -> str:
    """What has begun, with the number of its turn in place of the id."""
    of, _, rest = key.partition(" ")
    return f"{numbers.get(of, of)} {rest}"


def _message(turn: str | Mapping[str, Any]) -> str | Content:
    if isinstance(turn, str):
        return turn
    answers = {each: value if isinstance(value, dict) else {"result": value} for each, value in turn.items()}
    parts = [
        Part(function_response=FunctionResponse(id=each, name="adk_request_input", response=value))
        for each, value in answers.items()
    ]
    return Content(role="user", parts=parts)


def differences(found: Played, expected: Played) -> Iterator[str]:
    """What is otherwise than in the undisturbed play."""
    for key in found.shown:
        if found.shown[key] != expected.shown[key]:
            yield f"{key}: {str(found.shown[key])[:1000]} and not {str(expected.shown[key])[:1000]}"
    for key in sorted({*found.begun, *expected.begun}):
        times, usual = len(found.begun.get(key, ())), len(expected.begun.get(key, ()))
        if not usual <= times <= usual + 1:
            yield f"{key} was begun {times} times and not {usual}"
        path = key.rpartition(" ")[0]
        if times > usual and path in found.ended and found.begun[key][-1] > found.ended[path]:
            yield f"{key} was begun again after it had ended"


def kit_of(*, by_adapter: bool) -> Kit:
    """The classes of which programs are built."""
    if not by_adapter:
        return Kit()
    from tests.graph.adk import AdkKit

    return AdkKit()


@contextmanager
def theatre(name: str, folder: Path, *, by_adapter: bool = False, standbys: bool = False) -> Iterator[Theatre]:
    """A program in a deployment of which each process can be killed, on the Ray that is there."""
    notes = Notes(folder)
    program = PROGRAMS[name](kit_of(by_adapter=by_adapter), notes)
    notes.begin("none")
    settings = Settings(log_to_driver=False, spare_hosts=1, standby_runners=standbys, standby_sessions=standbys)
    with mortal_processes(notes), Deploy("ray", folder)(program.root, settings=settings) as rt:
        yield Theatre(program, rt, notes, standbys=standbys)


def tried(name: str, every: int, *, by_adapter: bool = False, standbys: bool = False) -> tuple[Counter[str], list[str]]:
    """Play a program on Ray again and again.

    Args:
        every: a process is killed at one in so many messages.
        standbys: the Runner and the Session actor have standbys.

    Returns:
        How often one was killed, by what lived in it; and how a play went otherwise than undisturbed.
    """
    times: Counter[str] = Counter(dict.fromkeys(get_args(Kind), 0))
    wrong: list[str] = []
    with quick_folder() as folder, theatre(name, Path(folder), by_adapter=by_adapter, standbys=standbys) as played:
        expected = played.play()
        wrong += differences(played.play(), expected)
        for kind in get_args(Kind):
            for at in count(1, every):
                found = played.play(kind, at)
                wrong += [f"{kind} killed at {at}: {each}" for each in differences(found, expected)]
                if not found.was_killed:
                    break
                times[kind] += 1
    return times, wrong


def tried_locally(name: str, every: int, *, by_adapter: bool = False) -> tuple[Counter[str], list[str]]:
    """The same on the local engine, whose actors are lost at each message instead of killed: see `tried`."""

    def play(*losses: Loss) -> tuple[Played, LossyEngine]:
        with quick_folder() as given:
            notes = Notes(Path(given))
            notes.begin("none")
            program = PROGRAMS[name](kit_of(by_adapter=by_adapter), notes)
            rt, engine = lossy_runtime(program.root, notes.folder, losses)
            with rt:
                return Theatre(program, rt, notes).play(), engine

    times: Counter[str] = Counter()
    wrong: list[str] = []
    expected, undisturbed = play()
    for who in get_args(Victim):
        for at in range(0, undisturbed.messages, every):
            for before in (True, False):
                loss = Loss(at, who, before)
                found, engine = play(loss)
                times[who] += bool(engine.lost)
                wrong += [f"{loss}: {each}" for each in differences(found, expected)]
    return times, wrong


def main() -> None:
    """Play programs and kill processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", action="store_true", help="build the programs of google-adk's classes")
    parser.add_argument("--standbys", action="store_true", help="the Runner and the Session actor have standbys")
    parser.add_argument("--every", type=int, default=1, help="kill at one in so many messages")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--engine", choices=["local", "ray"], default="ray")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed = 0
    if given.engine == "ray":
        start_ray()
    play = partial(tried, standbys=given.standbys) if given.engine == "ray" else tried_locally
    for name in given.only or PROGRAMS:
        times, wrong = play(name, given.every, by_adapter=given.adapter)
        failed += len(wrong) + (not all(times.values()))
        print(f"{name}: {dict(times)} lost, {len(wrong)} otherwise", flush=True)
        for each in wrong:
            print(f"  {each}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
