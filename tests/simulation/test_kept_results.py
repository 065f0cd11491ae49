"""What a call has given that has ended is kept: whatever is lost then, the call is not made again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.content import FunctionResponse
from actors.messages.event import decode_event
from tests.simulation.drivers import Driver
from tests.simulation.play import KEY
from tests.simulation.scenarios import Node, Step
from tests.simulation.scenes import outcome_of, play_scene, run_turn
from tests.simulation.test_scenes import lose_agent, lose_runner
from tests.simulation.world import World
from tests.support.tries import tries

CALLS = 20

TRICKLING = Node(kind="llm", name="root", steps=(Step(does="trickle", often=CALLS, takes_s=0.07), Step(does="work")))
"""Twenty calls that end 70 ms apart, and one more."""

IN_A_SEQUENCE = Node(kind="seq", name="above", children=(TRICKLING,))

ENDS_S = CALLS * 0.07
"""When the last of them ends, without losses."""


def results(world: World) -> list[FunctionResponse]:
    """The results that the log has."""
    events = [decode_event(raw, seq) for seq, raw in world.disk.store.events(KEY)]
    return [response for event in events for response in event.function_responses()]


def lose(world: World, victim: str) -> None:
    if victim == "agent":
        for process in world.directory.processes() if world.directory is not None else ():
            world.kill(process)
    elif victim == "runner":
        lose_runner(world)
    else:
        assert world.session is not None
        world.kill(world.session, 0.2)


@settings(max_examples=tries(60))
@given(
    losses=st.lists(
        st.tuples(st.floats(0.01, ENDS_S), st.sampled_from(["agent", "agent", "runner", "session"])), min_size=1, max_size=2
    ),
    root=st.sampled_from([TRICKLING, IN_A_SEQUENCE]),
)
def test_no_call_whose_result_is_in_the_log_is_made_again(losses: Sequence[tuple[float, str]], root: Node) -> None:
    async def script(world: World) -> tuple[tuple[str, list[str]], dict[str, int], Counter[str], list[FunctionResponse]]:
        driver = Driver(world)
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, "first")))
        made: dict[str, int] = {}
        for after_s, victim in losses:
            await asyncio.sleep(after_s)
            lose(world, victim)
            for response in results(world):
                made.setdefault(response.id or "", world.loop.history.begun[response.id or ""])
        return await told, made, world.loop.history.begun, results(world)

    ended, made, begun, log = play_scene(root, script)
    assert ended == ("Finished", [f"root says 2, having seen {2 * CALLS + 3}"])
    assert {call_id: begun[call_id] for call_id in made} == made
    assert [often for often in Counter(response.id for response in log).values() if often > 1] == []
    assert sorted(response.response["result"] for response in log) == sorted(
        [f"root_0_{number}" for number in range(CALLS)] + ["root_1_0"]
    )


@pytest.mark.parametrize("after_s", [0.5, 1.0])
def test_calls_that_have_ended_a_while_before_a_loss_are_made_once(after_s: float) -> None:
    async def script(world: World) -> list[int]:
        driver = Driver(world)
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, "first")))
        await asyncio.sleep(after_s)
        lose_agent(world)
        await told
        return list(world.loop.history.begun.values())

    begun = play_scene(TRICKLING, script)
    # A result waits for others for 0.1 s, and then for a commit.
    ended = int((after_s - 0.2) / 0.07)
    assert begun[:ended] == [1] * ended
    assert begun[-2] == 2


def test_a_turn_that_is_cancelled_keeps_the_results_that_there_are() -> None:
    async def script(world: World) -> tuple[str, list[FunctionResponse]]:
        driver = Driver(world)
        turn = run_turn(driver, "first")
        told = asyncio.create_task(outcome_of(driver, turn))
        await asyncio.sleep(1.0)
        await driver.spawn(turn.aio.cancel())
        return (await told)[0], results(world)

    ended, log = play_scene(TRICKLING, script)
    assert ended == "TurnCancelledError"
    cancelled = [response for response in log if response.response == {"error": "cancelled"}]
    assert len(log) == CALLS
    assert 5 <= len(cancelled) <= 9
    assert [response.response["result"] for response in log if response not in cancelled] == [
        f"root_0_{number}" for number in range(CALLS - len(cancelled))
    ]
