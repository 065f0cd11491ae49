"""Losses in an order that a test says: turns in line are lost with their programs, agents with and without their Runners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import pytest

from actors import Content, FunctionResponse, Part, RunConfig
from actors.messages.event import decode_event
from actors.messages.protocol.runs import RunChild
from tests.simulation.agents import TWICE
from tests.simulation.cluster import Sent
from tests.simulation.drivers import Driver
from tests.simulation.play import KEY
from tests.simulation.scenarios import Node, Step
from tests.simulation.scenes import attach, outcome_of, play_scene, run_turn
from tests.simulation.world import World
from tests.support.any_message import decode_message

SLOW = Node(kind="llm", name="slow", steps=(Step(does="work", takes_s=20.0),))
"""An agent whose turns take 20 seconds."""


async def in_line(
    world: World, *, again: bool = False, fingerprint: str = ""
) -> tuple[Driver, Driver, asyncio.Task[tuple[str, list[str]]]]:
    """The turn `second` waits for `first`. Returns its driver, one that follows it, and what that one will be told."""
    one, two, other = Driver(world), Driver(world), Driver(world)
    run_turn(one, "first")
    await asyncio.sleep(1.0)
    run_turn(two, "second", fingerprint=fingerprint)
    await asyncio.sleep(1.0)
    turn = run_turn(other, "second", fingerprint=fingerprint) if again else attach(other, "second")
    told = asyncio.create_task(outcome_of(other, turn))
    await asyncio.sleep(1.0)
    assert not told.done()
    return two, other, told


def lose_runner(world: World) -> None:
    assert world.runner is not None
    world.kill(world.runner, 0.5)


def lose_agent(world: World) -> None:
    assert world.directory is not None
    for process in world.directory.processes():
        world.kill(process)


def test_a_driver_that_follows_a_turn_in_line_is_told_when_the_turn_is_lost_with_its_runner_and_the_driver_that_began_it() -> (
    None
):
    async def script(world: World) -> tuple[str, list[str]]:
        two, _, told = await in_line(world)
        world.kill(two)
        lose_runner(world)
        return await told

    assert play_scene(SLOW, script) == ("InvocationNotFoundError", [])


def test_it_follows_the_turn_on_when_the_driver_that_began_it_lives() -> None:
    async def script(world: World) -> tuple[str, list[str]]:
        _, _, told = await in_line(world)
        lose_runner(world)
        return await told

    assert play_scene(SLOW, script) == ("Finished", ["slow says 1, having seen 7"])


def test_a_driver_that_has_asked_for_the_same_turn_asks_again_and_the_turn_begins() -> None:
    async def script(world: World) -> tuple[tuple[str, list[str]], list[str]]:
        two, _, told = await in_line(world, again=True)
        world.kill(two)
        lose_runner(world)
        lose_again = asyncio.create_task(asyncio.sleep(6.0))
        await lose_again
        # What was asked again waits in line, and is lost once more.
        lose_runner(world)
        ended = await told
        statuses = [row.status for _, row in world.disk.store.running(KEY.app)]
        return ended, statuses

    assert play_scene(SLOW, script) == (("Finished", ["slow says 1, having seen 7"]), [])


def test_a_driver_that_has_asked_for_the_same_turn_is_not_given_that_of_another_request_that_has_come_first_since() -> None:
    async def script(world: World) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
        two, _, told = await in_line(world, again=True, fingerprint="right")
        world.kill(two)
        lose_runner(world)
        other = Driver(world)
        of_other = await outcome_of(other, run_turn(other, "second", fingerprint="other"))
        return await told, of_other

    assert play_scene(SLOW, script) == (("RepeatMismatchError", []), ("Finished", ["slow says 1, having seen 7"]))


@pytest.mark.parametrize("after_s", [0.5, 3.0], ids=["before the first event", "after an event"])
@pytest.mark.parametrize("has_begun_it", [True, False])
def test_a_program_that_was_stopped_is_told_at_once_that_its_turn_was_rewound_meanwhile(
    has_begun_it: bool, after_s: float
) -> None:
    slow = Node(kind="llm", name="slow", steps=(Step(does="work", takes_s=20.0),), thinks_s=2.0)

    async def script(world: World) -> tuple[str, float]:
        one, other = Driver(world), Driver(world)
        turn = run_turn(other if has_begun_it else one, "first")
        await asyncio.sleep(after_s)
        told = asyncio.create_task(outcome_of(other, turn if has_begun_it else attach(other, "first")))
        await asyncio.sleep(1.0)
        world.freeze(other, 60.0)
        goes_on_s = world.loop.time() + 60.0
        assert (await outcome_of(one, attach(one, "first")))[0] == "Finished"
        assert world.session is not None
        world.kill(world.session, 0.5)
        await one.spawn(one.rt.aio.sessions.rewind(KEY.user, KEY.session, "first"))
        ended, _ = await told
        return ended, world.loop.time() - goes_on_s

    ended, took_s = play_scene(slow, script)
    assert ended == "InvocationNotFoundError"
    assert 0.0 <= took_s < 1.0


@pytest.mark.parametrize("has_begun", [True, False])
def test_of_two_objects_of_a_turn_only_that_of_another_request_is_refused(has_begun: bool) -> None:
    async def script(world: World) -> list[tuple[str, list[str]]]:
        one, two, other = Driver(world), Driver(world), Driver(world)
        if not has_begun:
            run_turn(Driver(world), "first")
            await asyncio.sleep(1.0)
        run_turn(one, "second", fingerprint="right")
        await asyncio.sleep(1.0)
        # The first one has a subscriber of its own, the others share one.
        turns = [run_turn(other, "second", fingerprint="right") for _ in range(2)]
        await asyncio.sleep(1.0)
        told = [asyncio.create_task(outcome_of(other, turn)) for turn in (turns[1], attach(other, "second"))]
        await asyncio.sleep(1.0)
        if has_begun:
            world.freeze(other, 60.0)
            await outcome_of(two, attach(two, "second"))
            assert world.session is not None
            world.kill(world.session, 0.5)
            await two.spawn(two.rt.aio.sessions.rewind(KEY.user, KEY.session, "second"))
        else:
            world.kill(one)
            lose_runner(world)
        run_turn(two, "second", fingerprint="other")
        return await asyncio.gather(*told)

    seen = 3 if has_begun else 7
    assert play_scene(SLOW, script) == [("RepeatMismatchError", []), ("Finished", [f"slow says 1, having seen {seen}"])]


def test_the_third_loss_of_a_process_of_its_own_fails_a_run_also_when_runner_and_session_actor_were_lost_in_between() -> None:
    async def script(world: World) -> tuple[tuple[str, list[str]], list[int]]:
        driver = Driver(world)
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, "first")))
        for victim in ("agent", "agent", "runner", "session", "agent", "runner", "agent"):
            await asyncio.sleep(5.0)
            if victim == "runner":
                lose_runner(world)
            elif victim == "session":
                assert world.session is not None
                world.kill(world.session, 0.5)
            else:
                lose_agent(world)
        return await told, list(world.loop.history.begun.values())

    ended, begun = play_scene(SLOW, script)
    assert (ended, begun) == (("AgentLostError", []), [6])


def test_a_runner_that_takes_a_turn_over_keeps_its_deadline() -> None:
    async def script(world: World) -> tuple[str, float]:
        driver, began_s = Driver(world), world.loop.time()
        turn = run_turn(driver, "first", run_config=RunConfig(timeout=18.0))
        told = asyncio.create_task(outcome_of(driver, turn))
        for _ in range(3):
            await asyncio.sleep(5.0)
            lose_runner(world)
        return (await told)[0], world.loop.time() - began_s

    ended, took_s = play_scene(SLOW, script)
    assert ended == "TurnTimeoutError"
    assert 18.0 <= took_s < 19.0


def test_losses_count_from_the_answer_on_when_a_turn_was_paused() -> None:
    asking = Node(
        kind="llm", name="slow", steps=(Step(does="work", takes_s=20.0), Step(does="ask"), Step(does="work", takes_s=20.0))
    )

    async def script(world: World) -> list[str]:
        driver, ends = Driver(world), []
        turn = run_turn(driver, "first")
        for _ in range(2):
            told = asyncio.create_task(outcome_of(driver, turn))
            for _ in range(3):
                await asyncio.sleep(5.0)
                lose_agent(world)
            ends.append((await told)[0])
            if len(ends) < 2:
                call = (await driver.spawn(driver.rt.aio.turns.pending("ada")))[0]
                turn = driver.run(driver.rt.answer, call, {"yes": 1})
        return ends

    assert play_scene(asking, script) == ["Paused", "Finished"]


def test_of_two_answers_in_line_behind_another_turn_the_first_is_taken() -> None:
    asking = Node(kind="llm", name="slow", steps=(Step(does="ask"), Step(does="work", takes_s=20.0)))

    async def script(world: World) -> tuple[list[str], int]:
        one, two, other = Driver(world), Driver(world), Driver(world)
        assert (await outcome_of(one, run_turn(one, "first")))[0] == "Paused"
        call = (await one.spawn(one.rt.aio.turns.pending("ada")))[0]
        # The first answer begins to run; both drivers have seen that the call waits.
        turns = [driver.run(driver.rt.answer, call, {"yes": 1}) for driver in (two, other)]
        ends = await asyncio.gather(*(outcome_of(driver, turn) for driver, turn in zip((two, other), turns, strict=True)))
        events = [decode_event(raw, seq) for seq, raw in world.disk.store.events(KEY)]
        answers = [response for event in events if event.author == "user" for response in event.function_responses()]
        return sorted(how for how, _ in ends), len(answers)

    assert play_scene(asking, script) == (["Finished", "TurnStateError"], 1)


def test_what_a_lost_agent_has_asked_for_ends_before_it_is_begun_again() -> None:
    root = Node(kind="seq", name="root", children=(SLOW,))

    async def script(world: World) -> tuple[tuple[str, list[str]], list[int], list[str]]:
        driver = Driver(world)
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, "first")))
        await asyncio.sleep(5.0)
        assert world.directory is not None
        world.kill(world.directory.links["root"][1])
        return await told, list(world.loop.history.begun.values()), list(TWICE)

    assert play_scene(root, script) == (("Finished", ["slow says 1, having seen 3"]), [2], [])


def test_an_agent_as_a_tool_goes_on_with_its_question_when_the_agent_that_has_asked_it_is_lost() -> None:
    root = Node(kind="llm", name="root", steps=(Step(does="expert", to="slow"),), experts=(SLOW,))

    async def script(world: World) -> tuple[str, int]:
        driver = Driver(world)
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, "first")))
        await asyncio.sleep(5.0)
        assert world.directory is not None
        world.kill(world.directory.links["root"][1])
        ended = (await told)[0]
        events = [decode_event(raw, seq) for seq, raw in world.disk.store.events(KEY)]
        return ended, sum(event.author == "user" and event.branch is not None for event in events)

    assert play_scene(root, script) == ("Finished", 1)


def test_a_child_is_asked_for_together_with_the_note_that_it_begins() -> None:
    root = Node(kind="seq", name="root", children=(SLOW,))

    async def script(world: World) -> list[int]:
        driver = Driver(world)
        assert (await outcome_of(driver, run_turn(driver, "first")))[0] == "Finished"
        asked = [decode_message(sent.raw) for _, what, sent, _ in world.trace.entries if what == "sent" and sent is not None]
        return [len(message.notes) for message in asked if isinstance(message, RunChild)]

    assert play_scene(root, script) == [1]


@pytest.mark.parametrize("lose", [lose_runner, lose_agent])
def test_all_that_one_message_answers_below_a_workflow_goes_on_when_it_is_lost(lose: Callable[[World], None]) -> None:
    helper = Node(kind="llm", name="helper", steps=(Step(does="ask"),))
    steps = (Step(does="hand", to="helper"), Step(does="work", takes_s=20.0))
    desk = Node(kind="llm", name="desk", steps=steps, children=[helper])

    async def script(world: World) -> tuple[str, list[str]]:
        driver = Driver(world)
        assert (await outcome_of(driver, run_turn(driver, "first")))[0] == "Paused"
        calls = await driver.spawn(driver.rt.aio.turns.pending("ada"))
        answers = [FunctionResponse(id=call.call_id, name="ask", response={"yes": 1}) for call in calls]
        message = Content(role="user", parts=[Part(function_response=answer) for answer in answers])
        told = asyncio.create_task(outcome_of(driver, run_turn(driver, message=message)))
        await asyncio.sleep(5.0)
        lose(world)
        return await told

    ended, texts = play_scene(Node(kind="seq", name="root", children=[desk]), script)
    assert (ended, sorted(text.split(" says ")[0] for text in texts)) == ("Finished", ["desk", "helper"])


@pytest.mark.parametrize("kind", ["seq", "loop", "par"])
def test_what_a_run_has_asked_for_says_nothing_behind_the_failure_of_that_run(kind: Literal["seq", "loop", "par"]) -> None:
    thinks = Node(kind="llm", name="thinks", thinks_s=2.0)
    children = [thinks, Node(kind="llm", name="fails", fails=1)] if kind == "par" else [thinks]
    asks = Node(kind=kind, name="asks", children=children, supervision="skip" if kind == "par" else "")
    root = Node(kind="seq", name="root", children=[asks, SLOW], supervision="skip")

    authors = play_scene(root, lambda world: authors_with_refused(world, "asks"))
    # Its failure, the decision to skip it, the note of the next child, and what that says.
    assert authors[authors.index("asks") :] == ["asks", "root", "root", "slow", "slow", "slow"]


def test_a_graph_tells_the_failure_of_a_node_whose_first_words_were_not_stored() -> None:
    root = Node(kind="graph", name="root", children=[Node(kind="llm", name="node")])
    assert play_scene(root, lambda world: authors_with_refused(world, "node"))[1] == "root"


async def authors_with_refused(world: World, agent: str) -> list[str]:
    """The authors of what is stored in a turn, if the store refuses the first of an agent, and no more."""
    take_sent = world.wires.on_sent

    def refuse(sent: Sent) -> float:
        if sent.kind == "Append" and agent in sent.who:
            # It is written once more, alone.
            world.disk.conflicts, world.wires.on_sent = 2, take_sent
        return take_sent(sent)

    world.wires.on_sent = refuse
    driver = Driver(world)
    await outcome_of(driver, run_turn(driver, "first"))
    return [decode_event(raw, seq).author for seq, raw in world.disk.store.events(KEY)]
