"""Workflows that are cancelled at any of their steps: the turn ends there, calls have responses, and the next turn works."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from actors import Flow
from actors.errors import TurnCancelledError
from actors.messages import protocol as p
from tests.acceptance.losses.scenes import SCENES, Agents
from tests.support.agents.workflow_agents import answer
from tests.support.fixtures.lossy_engine import Process, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn, stored
from tests.support.tries import IS_FULL


def play(name: str, cancelled_at: int) -> int:
    """Play a scene, with a cancel that sets out when the message of that number has stored events. Returns how many did."""
    tree, then = SCENES[name]
    steps = 0
    cancelling: list[asyncio.Task[p.Message]] = []

    async def see(sender: Process, message: p.Message, handled: bool) -> None:
        nonlocal steps
        if handled and isinstance(message, p.Append):
            steps += 1
            if steps == cancelled_at:
                turn = message.turn
                cancel = p.CancelTurn(key=turn.key, invocation_id=turn.invocation_id)
                cancelling.append(asyncio.ensure_future(engine.runner.ask(cancel)))

    with quick_folder() as folder:
        rt, engine = lossy_runtime(tree(Agents([])), Path(folder), [])
        engine.meddler = see
        with rt:
            with suppress(TurnCancelledError):
                run_turn(rt, "go")
                for each in then:
                    if isinstance(each, Flow):
                        rt.run_flow(each, user_id="ada", session_id="s1").result()
                    else:
                        run_turn(rt, each if isinstance(each, str) else answer(rt, *each))
            log, turns = stored(rt), rt.turns.list()
            assert {turn.state for turn in turns} <= {"finished", "cancelled"}
            if cancelling:
                last = {turn.invocation_id: turn.last_seq for turn in turns}
                assert all(event.seq <= last[event.invocation_id] for event in log)
            called = {call.id for event in log for call in event.function_calls()}
            assert called <= {response.id for event in log for response in event.function_responses()}
            engine.meddler = None
            with suppress(Exception):
                # Its agents may fail, as those of some scenes do each time.
                run_turn(rt, "again")
            assert rt.turns.list(state="running") == []
            assert stored(rt)[len(log)].text == "again"
            assert all(each.done() and each.exception() is None for each in cancelling)
    return steps


@pytest.mark.parametrize("name", SCENES)
def test_a_workflow_that_is_cancelled_at_any_step_ends_there_and_leaves_no_call_open(name: str) -> None:
    for step in range(1, play(name, 0) + 1, 1 if IS_FULL else 4):
        play(name, step)
