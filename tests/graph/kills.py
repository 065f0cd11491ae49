"""Kills processes while programs with graphs run on Ray.

Each program is played once undisturbed, and then with the process of an agent, of the Runner and of the Session actor killed at
its first message, its second, and so on, until a play has fewer. The turns, the state and the errors have to be the same, and no
function that has ended is called again. With standbys it is theirs to take the place of the Runner and the Session actor, and
the next play waits until there are new ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, get_args

from actors import Content, Event, FunctionResponse, Part, RunConfig
from actors.errors import RaygroveError
from actors.messages.event import USER
from runtime.driver.runtime import Runtime
from runtime.frontends.web.adk.events import AdkEvents
from runtime.settings import Settings
from tests.graph.kit import Kit
from tests.graph.mortal import Kind, mortal_processes
from tests.graph.programs import PROGRAMS, Notes, Program
from tests.support.machine.folders import quick_folder
from tests.support.machine.processes import is_running
from tests.support.polling import until
from tests.support.runtimes import Deploy

USER_ID = "u"

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
        view, turns, raised = AdkEvents(for_operator=True), [], []
        for turn in self._program.turns:
            events: list[Event] = []
            try:
                for event in self._rt.run(
                    user_id=USER_ID, session_id=name, message=_message(turn), run_config=RunConfig(timeout=LONGEST_S)
                ):
                    events.append(event)
            except RaygroveError as error:
                raised.append(f"{type(error).__name__}: {error}".partition("\n")[0])
            turns.append(sorted(json.dumps(each, sort_keys=True) for each in _shown(view, events)))
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


def _shown(view: AdkEvents, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """What google-adk's clients get of events, without times and ids."""
    for event in (each for of in events if of.author != USER for each in view.shown(of)):
        parts = event.get("content", {}).get("parts", ())
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        actions = event["actions"]
        yield {
            **{key: event.get(key) for key in ("author", "nodeInfo", "branch", "isolationScope", "partial", "output")},
            **{key: event.get(key) for key in ("errorCode", "errorMessage", "longRunningToolIds")},
            **{key: actions.get(key) for key in ("route", "stateDelta", "transferToAgent", "escalate", "skipSummarization")},
            "text": "".join(part.get("text", "") for part in parts),
            "calls": [[call["name"], call["id"], call["args"]] for call in calls],
            "responses": [[answer["name"], answer["id"], answer["response"]] for answer in answers],
        }


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
