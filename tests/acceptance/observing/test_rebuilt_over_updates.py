"""Requests are recorded, and rebuilt as well: both are equal to the byte, over two updates of the tree, whatever was lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from actors import BaseAgent, LlmAgent, RunConfig
from actors.definitions.tree import AgentTree
from actors.errors import TurnError
from actors.messages.codec import encode
from actors.messages.llm.recorded import RecordedCall
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from runtime import Runtime, Settings
from runtime.driver.turns.rebuilt import with_rebuilt
from tests.acceptance.losses.parts.working_trees import WORKING
from tests.acceptance.losses.trees import TREES
from tests.support.agents.workflow_agents import answer
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn
from tests.support.vectors.shared_runtimes import CaseRuntime, sharing_key
from tests.support.vectors.vector_notation import Case, TreeBuilder, load_cases, scripted
from tests.support.vectors.vector_runner import CaseRun

VERSIONS = ("", "Now be brief after {a?}, {x?} and {c?}.", "Now be kind, {b?} {h?} {d?} {e?} {tried?} {rounds?} {runs?} {t?}.")
"""What is added to the instruction of each agent: the tree with which a deployment is started, and two updates.

The names are what agents and functions of the trees write into the state.
"""

ALL = {**TREES, **WORKING}
VICTIMS: tuple[Victim, ...] = ("agents", "runner", "session", "runner and session")
RECORDED = Settings(record_requests="on")

INEXACT = {
    "a before_model_callback may have changed it",
    "the toolset 'LockedToolset' says at each run which tools it has",
    "what the node was asked was long, and the log does not have it: a function has made it",
    *(f"another branch changed {name!r} of the state meanwhile" for name in ("x", "t", "h", "y", "b", "a")),
}
"""Why requests of these trees are left out. Nothing is because of an update or a loss."""


class Play(NamedTuple):
    """What is played with each version of a tree, and the tree."""

    name: str
    root: Callable[[str], BaseAgent]
    turns: Callable[[Runtime, int], None]


def changed(root: BaseAgent, says: str) -> BaseAgent:
    """The tree with something more in each instruction that is a text."""
    for agent in AgentTree(root):
        if isinstance(agent, LlmAgent) and isinstance(agent.instruction, str):
            # Nobody has it yet.
            agent.__dict__["instruction"] = f"{agent.instruction}{says}"
    return root


def of_vector(case: Case) -> Play:
    """A recorded case: its script is played once by each version, in a session of its own."""
    script = case.given.get("script") or []
    model = scripted([*script, *script, *script])

    def turns(rt: Runtime, number: int) -> None:
        own = msgspec.structs.replace(case, id=f"{case.id}-{number}")
        CaseRun(own, CaseRuntime(rt, model, number * len(script), len(script))).run()

    return Play(case.id, lambda says: changed(TreeBuilder(model).build(case.given["tree"]), says), turns)


def of_tree(name: str) -> Play:
    """A tree of which actors are lost at any message: two turns, of which the second may answer the first."""

    def turns(rt: Runtime, number: int) -> None:
        config, session = RunConfig(timeout=30), f"s{number}"
        first = run_turn(rt, "go", session, run_config=config)
        waits = any(event.long_running_tool_ids or event.actions.requested_inputs for event in first)
        # Some graphs want a text, and fail: what was asked before is asked for, too.
        with suppress(TurnError):
            run_turn(rt, answer(rt, "h", session_id=session) if waits else "more", session, run_config=config)

    return Play(name, lambda says: changed(ALL[name](), says), turns)


def plays(chance: random.Random) -> Iterator[Play]:
    """All plays, in any order, again and again."""
    cases = [case for case in load_cases() if "turns" in case.given and case.given.get("script") and sharing_key(case)]
    while True:
        found = [*map(of_vector, cases), *map(of_tree, ALL)]
        chance.shuffle(found)
        yield from found


def asked(rt: Runtime, turn: TurnInfo) -> Iterator[tuple[RecordedCall, RecordedCall | None]]:
    """What is rebuilt of a turn, as if nothing were recorded of it, and what is recorded."""
    recorded = {
        call.event_id: call for call in rt.turns.requests(turn.user_id, turn.session_id, turn.invocation_id, rebuild=False)
    }
    key = SessionKey("test", turn.user_id, turn.session_id)
    rebuilt = rt._client.run(with_rebuilt(rt._client.engine, key, turn, [], None))
    assert {call.event_id for call in rebuilt} <= recorded.keys()
    for call in rebuilt:
        yield call, recorded.get(call.event_id)


def played(play: Play, folder: Path, losses: list[Loss], tally: Counter[str]) -> None:
    rt, engine = lossy_runtime(play.root(VERSIONS[0]), folder, losses, settings=RECORDED)
    with rt:
        for number, says in enumerate(VERSIONS):
            if number:
                rt.update(play.root(says))
                lose_all(rt, engine)
            play.turns(rt, number)
        lose_all(rt, engine)
        turns = rt.turns.list(limit=1_000)
        assert len({turn.version for turn in turns}) == len(VERSIONS), play.name
        for turn in turns:
            tally["turns"] += 1
            for call, recorded in asked(rt, turn):
                assert recorded is not None
                if call.request is None:
                    tally[call.omitted] += 1
                else:
                    tally["equal"] += 1
                    assert encode(call.request) == encode(recorded.request), (play.name, turn.invocation_id, call.seq)


def lose_all(rt: Runtime, engine: LossyEngine) -> None:
    rt._client.run(engine.lose("agents", "runner", "session"))


@pytest.mark.parametrize("enough", [30, pytest.param(120, marks=[pytest.mark.full, pytest.mark.timeout(600)])])
def test_what_is_rebuilt_equals_what_was_recorded_over_updates_and_losses(enough: int) -> None:
    chance = random.Random(5)
    tally = Counter[str]()
    for play in plays(chance):
        # A script has one answer for each call, so of recorded cases nothing is lost while they run.
        losses = [Loss(chance.randrange(30), chance.choice(VICTIMS), chance.random() < 0.5)] if play.name in ALL else []
        with quick_folder() as folder:
            played(play, Path(folder), losses, tally)
        if tally["turns"] >= enough:
            break
    turns, equal = tally.pop("turns"), tally.pop("equal")
    print(f"{turns} turns: {equal} requests are equal, left out are {dict(tally)}")
    assert turns >= enough
    assert set(tally) <= INEXACT
