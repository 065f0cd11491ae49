"""Turns that meet in one session, the order in which they run, and turns that are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from actors import Blob, CallbackContext, Content, Event, Flow, LlmAgent, Part, Plugin, RunConfig, Task
from actors.errors import SessionBusyError, TurnCancelledError, TurnTimeoutError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.conversation_tools import Gate, forever
from tests.support.agents.flow_agents import ME, succeed, worker
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.vectors.vector_agents import SayingAgent


def agent(*tools: Any) -> LlmAgent:
    """Waits at the gate, hangs, or just answers, as the message says."""
    model = PatternModel([("wait", {"call": "wait"}), ("hang", {"call": "forever"}), ("tool:", "done")], default="hello")
    return LlmAgent(name="root", model=model, tools=[forever, *tools])


def start(rt: Runtime, message: str, **options: Any) -> Turn:
    return rt.run(user_id="ada", session_id="s1", message=message, **options)


def begun(turn: Turn) -> Iterator[Event]:
    """The turn's events after the first one, which has come. Dropping the iterator would cancel the turn."""
    events = iter(turn)
    assert any(next(events).function_calls())
    return events


def shown(rt: Runtime) -> list[str]:
    """The log in short: texts, calls and responses."""
    lines = []
    for event in stored(rt):
        said = [event.text] if event.text else []
        said += [f"call {call.name}" for call in event.function_calls()]
        said += [f"{response.name}: {response.response}" for response in event.function_responses()]
        lines.append(f"{event.author} {', '.join(said)}")
    return lines


HANGS = ["user hang", "root call forever", "root forever: {'error': 'cancelled'}"]
GOES_ON = ["user hi", "root hello"]


def test_a_second_turn_waits_in_line_and_is_refused_when_it_asks_for_that(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate.tool())) as rt:
        first = start(rt, "wait")
        events = begun(first)
        second = start(rt, "second")
        with pytest.raises(SessionBusyError, match=first.invocation_id):
            start(rt, "third", run_config=RunConfig(on_concurrent_turn="reject")).result()
        with pytest.raises(SessionBusyError):
            rt.sessions.delete("ada", "s1")
        with pytest.raises(SessionBusyError):
            rt.sessions.rewind("ada", "s1", first.invocation_id)
        gate.open()
        assert author_texts(list(events)) == [("root", ""), ("root", "done")]
        assert second.result().text == "hello"
        assert shown(rt) == [
            "user wait",
            "root call wait",
            "root wait: {'result': 'open'}",
            "root done",
            "user second",
            "root hello",
        ]


def test_a_turn_can_interrupt_the_one_that_runs(deploy: Deploy) -> None:
    with deploy(agent()) as rt:
        first = start(rt, "hang")
        events = begun(first)
        assert start(rt, "hi", run_config=RunConfig(on_concurrent_turn="interrupt")).result().text == "hello"
        with pytest.raises(TurnCancelledError):
            list(events)
        assert shown(rt) == HANGS + GOES_ON


def test_leaving_the_iteration_cancels_and_the_next_turn_works(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": ["one moment", {"call": "forever"}, {"call": "forever"}]}, "fine"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever])) as rt:
        for event in start(rt, "hang"):
            assert event.text == "one moment"
            break
        last = stored(rt)[-1]
        assert last.author == "root"
        assert [response.response for response in last.function_responses()] == [{"error": "cancelled"}] * 2
        assert author_texts(run_turn(rt, "hi")) == [("root", "fine")]
        contents = model.requests[1].contents
        assert [content.role for content in contents] == ["user", "model", "user", "user"]
        assert [response.response for response in contents[2].function_responses()] == [{"error": "cancelled"}] * 2


def test_a_cancelled_turn_is_sealed_whatever_still_works_in_a_thread(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate.tool())) as rt:
        turn = start(rt, "wait")
        events = begun(turn)
        gate.wait_for_caller()
        turn.cancel()
        with pytest.raises(TurnCancelledError):
            list(events)
        with pytest.raises(TurnCancelledError, match=turn.invocation_id):
            turn.result()
        sealed = ["user wait", "root call wait", "root wait: {'error': 'cancelled'}"]
        assert shown(rt) == sealed
        gate.open()
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
        assert shown(rt) == sealed + GOES_ON
        turn.cancel()
        assert shown(rt) == sealed + GOES_ON
        with pytest.raises(TurnCancelledError):
            rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).result()


def test_a_turn_that_has_hardly_begun_or_waits_in_line_can_be_cancelled(deploy: Deploy) -> None:
    with deploy(agent()) as rt:
        for _ in range(3):
            turn = start(rt, "hang")
            turn.cancel()
            with pytest.raises(TurnCancelledError):
                turn.result()
        first = start(rt, "hang")
        events = begun(first)
        before = shown(rt)
        second = start(rt, "in line")
        second.cancel()
        with pytest.raises(TurnCancelledError, match=second.invocation_id):
            second.result()
        assert shown(rt) == before
        first.cancel()
        with pytest.raises(TurnCancelledError):
            list(events)
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
        assert shown(rt)[-5:] == HANGS + GOES_ON


def test_a_turn_that_takes_too_long_is_cancelled(deploy: Deploy) -> None:
    with deploy(agent()) as rt:
        run_turn(rt, "hi")
        # Long enough for the call to be made, also on a busy machine.
        timeout_s = 0.5 if deploy.engine == "local" else 2.0
        with pytest.raises(TurnTimeoutError, match=f"{timeout_s} s"):
            start(rt, "hang", run_config=RunConfig(timeout=timeout_s)).result()
        assert shown(rt) == GOES_ON + HANGS
        assert author_texts(run_turn(rt, "hi", run_config=RunConfig(timeout=100))) == [("root", "hello")]


def test_a_running_turn_can_be_joined_from_its_first_event_and_from_behind_it(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate.tool())) as rt:
        turn = start(rt, "wait", invocation_id="mine")
        events = iter(turn)
        call = next(events)
        joined = rt.attach(user_id="ada", session_id="s1", invocation_id="mine")
        told_again = iter(joined)
        assert next(told_again) == call
        behind = rt.attach(user_id="ada", session_id="s1", invocation_id="mine", after_seq=call.seq)
        same = start(rt, "wait", invocation_id="mine")
        gate.open()
        rest = list(events)
        assert [event.text for event in rest] == ["", "done"]
        assert list(told_again) == rest
        assert list(behind) == rest
        assert list(same) == [call, *rest]
        assert joined.result().outcome == turn.result().outcome


def test_whoever_joins_a_turn_that_talks_all_the_time_hears_all_of_it(deploy: Deploy) -> None:
    with deploy(SayingAgent(name="root", say=[str(number) for number in range(300)])) as rt:
        turn = start(rt, "talk")
        where: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "invocation_id": turn.invocation_id}
        joined: list[tuple[int, Turn]] = []
        for event in turn:
            if event.seq % 10 == 0:
                joined += [(0, rt.attach(**where)), (event.seq, rt.attach(**where, after_seq=event.seq))]
        whole = list(turn)
        assert [event.text for event in whole] == [str(number) for number in range(300)]
        for after_seq, other in joined:
            assert list(other) == [event for event in whole if event.seq > after_seq]


def test_sessions_do_not_wait_for_each_other(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate.tool())) as rt:
        held = start(rt, "wait")
        events = begun(held)
        turns = [rt.run(user_id="ada", session_id=f"other {index}", message="hi") for index in range(20)]
        assert [turn.result().text for turn in turns] == ["hello"] * 20
        gate.open()
        assert [event.text for event in events] == ["", "done"]


def test_a_loop_that_was_closed_while_it_waited_for_one_turn_does_not_keep_others_from_ending(local: Deploy, gate: Gate) -> None:
    with local(agent(gate.tool())) as rt:
        hanging = start(rt, "hang")
        hangs = begun(hanging)
        waits = begun(rt.run(user_id="ada", session_id="s2", message="wait"))

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hanging.aio.result(), 0.01)

        asyncio.run(give_up())
        hanging.cancel()
        gate.open()
        assert [event.text for event in waits][-1] == "done"
        with pytest.raises(TurnCancelledError):
            list(hangs)


async def test_on_an_event_loop_too_leaving_cancels(deploy: Deploy) -> None:
    async with deploy(agent()) as rt:
        turn = start(rt, "hang")
        async with aclosing(cast(Any, aiter(turn))) as events:
            async for event in events:
                assert any(event.function_calls())
                break
        with pytest.raises(TurnCancelledError):
            await turn
        turn = start(rt, "hang")
        running = asyncio.Event()

        async def listen() -> None:
            async for _ in turn:
                running.set()

        listener = asyncio.create_task(listen())
        await running.wait()
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener
        with pytest.raises(TurnCancelledError):
            await turn
        turn = start(rt, "hang")
        await turn.aio.cancel()
        with pytest.raises(TurnCancelledError):
            await turn
        assert (await start(rt, "hi")).text == "hello"
        session = await rt.aio.sessions.get("ada", "s1")
        assert session is not None
        cancelled = [answer.response for event in session.events for answer in event.function_responses()]
        assert cancelled[:2] == [{"error": "cancelled"}] * 2


TURNS = 20


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray promises no order for its calls."""
    monkeypatch.setenv("RAYGROVE_TRANSPORT", "direct")


class SlowFirst(Plugin):
    """Sees the first message for longer than the others."""

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        for _ in range(200 if content.text.startswith("0") else 0):
            await asyncio.sleep(0)


def hello() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="hello"))


def asked(rt: Runtime) -> list[str]:
    """What the user has said in the session, in the order of the log."""
    session = rt.sessions.get("ada", "s1")
    assert session is not None
    return [event.content.text for event in session.events if event.author == "user" and event.content is not None]


@pytest.mark.usefixtures("direct")
def test_turns_of_a_session_run_in_the_order_in_which_they_were_started(deploy: Deploy) -> None:
    messages = [str(number) for number in range(TURNS)]
    with deploy(hello()) as rt:
        # Neither actor has served a session before, and the session has to be created: all that takes time at first.
        turns = [rt.run(**ME, message=message) for message in messages]
        assert [turn.result().text for turn in turns] == ["hello"] * TURNS
        assert asked(rt) == messages


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("invocation_id", [None, "e-0"])
def test_a_message_that_plugins_or_its_data_keep_for_longer_stays_the_first(deploy: Deploy, invocation_id: str | None) -> None:
    data = Part(inline_data=Blob(mime_type="text/plain", data=b"data"))
    with deploy(hello(), plugins=[SlowFirst("slow")]) as rt:
        first = Content(role="user", parts=[Part(text="0"), data])
        saved = RunConfig(save_input_blobs_as_artifacts=True)
        turns = [rt.run(**ME, message=first, run_config=saved, invocation_id=invocation_id)]
        turns += [rt.run(**ME, message=str(number)) for number in range(1, 4)]
        for turn in turns:
            turn.result()
        assert [text[0] for text in asked(rt)] == ["0", "1", "2", "3"]


@pytest.mark.usefixtures("direct")
def test_a_flow_whose_definition_is_sent_first_stays_before_the_turns_after_it(deploy: Deploy) -> None:
    root = worker("root", succeed("one", "done"), "hello", "hello")
    with deploy(root) as rt:
        turns = [rt.run_flow(Flow([Task("Do it", name="one", agents=[root])]), **ME, message="0")]
        turns += [rt.run(**ME, message=str(number)) for number in (1, 2)]
        for turn in turns:
            turn.result()
        assert asked(rt) == ["0", "1", "2"]
