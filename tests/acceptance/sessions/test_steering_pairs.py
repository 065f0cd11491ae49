"""Messages to an agent that is at work, together with other features: each is answered once, and disturbs nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import START, Content, Event, Flow, Graph, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig, Task, ToolContext, tool
from actors.errors import OverloadedError, StoreError, TurnCancelledError
from actors.messages.content import FunctionCall
from actors.messages.protocol.runs import Finished, Paused
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.acceptance.sessions.test_steering import STEER, at_gate, log, start, steer, texts, worker
from tests.support.agents.conversation_tools import Gate, forever
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard
from tests.support.stores.plain_session_store import PlainStore


def test_an_agent_without_the_conversation_keeps_the_whole_turn(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, "done"])
    agent = LlmAgent(name="root", model=model, tools=[gate.tool()], include_contents="none")
    with local(agent) as rt:
        first = at_gate(rt, gate)
        steer(rt, "more")
        gate.open()
        first.result()
        contents = model.requests[1].contents
        assert texts(model, 1) == ["begin", "more"]
        assert sum(any(content.function_responses()) for content in contents) == 1


def test_nodes_of_a_graph_see_it(deploy: Deploy, gate: Gate) -> None:
    one, first = worker(gate, "one done", name="one")
    last = ScriptedModel(["two done"])
    with deploy(Graph(name="root", edges=[(START, one, LlmAgent(name="two", model=last))])) as rt:
        turn = at_gate(rt, gate)
        steer(rt, "more")
        gate.open()
        assert turn.result().text == "two done"
        assert (texts(first, 1), texts(last, 0)) == (["begin", "more"], ["one done", "more"])


def test_a_task_agent_sees_what_it_has_read_also_after_it_has_waited(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, "Where?", {"call": "finish_task", "args": {"result": "Rome"}}])
    with local(LlmAgent(name="root", model=model, tools=[gate.tool()], mode="task")) as rt:
        first = at_gate(rt, gate)
        second = steer(rt, "more")
        gate.open()
        assert isinstance(first.result().outcome, Paused)
        assert isinstance(second.result().outcome, Paused)
        start(rt, "Rome").result()
        assert texts(model, 2) == ["begin", "more", "Where?", "Rome"]


class Asker:
    """Waits for the test, asks, and ends the task with the next message."""

    def __init__(self) -> None:
        self.is_at_work, self.may_go_on = threading.Event(), threading.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if len(request.contents) == 1:
            self.is_at_work.set()
            await asyncio.to_thread(self.may_go_on.wait, 20)
            yield LlmResponse(content=Content.of_text("Where?", role="model"))
        else:
            call = FunctionCall(name="finish_task", args={"result": request.contents[-1].text})
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))


def test_a_message_that_a_task_agent_has_not_read_is_the_answer_that_it_waits_for(local: Deploy) -> None:
    model = Asker()
    with local(LlmAgent(name="root", model=model, mode="task")) as rt:
        first = start(rt, "begin")
        assert model.is_at_work.wait(20)
        second = steer(rt, "Rome")
        model.may_go_on.set()
        assert isinstance(first.result().outcome, Paused)
        assert isinstance(second.result().outcome, Finished)
        assert second.steered is None
        assert [(turn.invocation_id, turn.state) for turn in rt.turns.list()] == [(first.invocation_id, "finished")]
        assert log(rt) == ["user: begin", "root: Where?", "user: Rome"]


def test_messages_of_two_users_in_one_second_do_not_wait_for_each_other(local: Deploy, tmp_path: Path) -> None:
    models = {name: GatedModel(_folder(tmp_path / name), f"{name} done") for name in ("late", "soon")}

    class Either:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            """Answer as the model that the message names."""
            async for response in models[request.contents[-1].text].generate(request, stream=stream):
                yield response

    def say(rt: Runtime, name: str, config: RunConfig | None = None) -> Turn:
        # Of two that are due in the same second, that of "ada" stands first.
        return rt.run(user_id={"late": "bob", "soon": "ada"}[name], session_id="s1", message=name, run_config=config)

    with local(LlmAgent(name="root", model=Either())) as rt:
        for name, model in models.items():
            say(rt, name)
            model.wait_until_called()
        steered = {"late": say(rt, "late", STEER)}
        until(lambda: rt.turns.counts().waiting)
        steered["soon"] = say(rt, "soon", STEER)
        assert steered["soon"].steered is not None
        for name in ("soon", "late"):
            models[name].release()
            models[name].wait_until_called()
            models[name].release()
            assert steered[name].result().text == f"{name} done"


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_no_more_messages_wait_than_may_and_each_that_was_accepted_is_read(local: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with local(agent) as rt:
        first = at_gate(rt, gate)
        said = [start(rt, f"m{number}", run_config=STEER) for number in range(120)]
        accepted = [turn for turn in said if turn.steered is not None]
        gate.open()
        assert first.result().text == "done"
        assert {turn.result().text for turn in accepted} == {"done"}
        for refused in (turn for turn in said if turn not in accepted):
            with pytest.raises(OverloadedError):
                refused.result()
        assert len(accepted) == 100
        assert len([line for line in log(rt) if line.endswith("(root)")]) == 100


def test_large_messages_are_bounded_too(local: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with local(agent) as rt:
        first = at_gate(rt, gate)
        said = [start(rt, "m" * 3_400_000, run_config=STEER) for _ in range(5)]
        assert [turn.steered is not None for turn in said].count(True) == 4
        gate.open()
        first.result()
        assert len([line for line in log(rt) if line.endswith("(root)")]) == 4


def test_what_waits_is_deleted_with_its_user(local: Deploy, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    agent, _ = worker(gate, "done", "new")
    with local(agent) as rt:
        first = at_gate(rt, gate)
        steer(rt, "more")
        rt.schedules.create("daily", user_id="ada", message="hi", every=3600)
        assert rt.users.delete("ada").schedules == 1
        gate.open()
        with pytest.raises(TurnCancelledError):
            first.result()
        assert start(rt, "again").result().text == "done"
        assert log(rt) == ["user: again", "root: done"]
        assert not caplog.records


@pytest.mark.parametrize("way", ["interrupt", "cancel"])
def test_a_turn_that_is_cancelled_before_it_reads_gives_the_message_its_own(local: Deploy, way: str) -> None:
    model = PatternModel([("begin", {"call": "forever"})], default="here")
    with local(LlmAgent(name="root", model=model, tools=[forever])) as rt:
        for number in range(5):
            session = f"s{number}"

            def say(text: str, config: RunConfig | None = None, session: str = session) -> Turn:
                return rt.run(user_id="ada", session_id=session, message=text, run_config=config)

            first = say("begin")
            events = iter(first)
            next(events)
            second = say("more", STEER)
            assert second.steered is not None
            third = say("next", RunConfig(on_concurrent_turn="interrupt") if way == "interrupt" else None)
            if way == "cancel":
                first.cancel()
            with pytest.raises(TurnCancelledError):
                list(events)
            assert (second.result().text, third.result().text) == ("here", "here")
            said = [event.text for event in stored(rt, session) if event.author == "user"]
            assert sorted(said) == ["begin", "more", "next"]


@tool
def mood(tool_context: ToolContext) -> str:
    """Read the state."""
    return str(tool_context.state.get("temp:mood"))


def test_state_of_the_turn_that_comes_with_it_is_set_too(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, {"call": "mood"}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[gate.tool(), mood])) as rt:
        first = at_gate(rt, gate)
        steer(rt, "more", state_delta={"temp:mood": "calm"})
        gate.open()
        results = [response.response for event in first.result().events for response in event.function_responses()]
        assert results[1:] == [{"result": "calm"}]


def test_an_agent_reads_it_in_its_next_round_of_a_flow(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, {"call": "succeed_task_1", "args": {"result": "ok"}}])
    agent = LlmAgent(name="root", model=model, tools=[gate.tool()])
    with local(agent) as rt:
        flow = rt.run_flow(Flow([Task("Do it.", agents=[agent])]), user_id="ada", session_id="s1")
        gate.wait_for_caller()
        steer(rt, "more")
        gate.open()
        assert flow.result().tasks["task_1"].result == "ok"
        assert texts(model, 1)[-1] == "more"


@pytest.mark.parametrize("reads", [True, False], ids=["read", "not_read"])
def test_messages_find_their_turns_with_several_session_actors_and_runners(tmp_path: Path, server: str, reads: bool) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    gates = {session: Gate(_folder(tmp_path / session)) for session in sessions}

    class Waits:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            said = [content.text for content in request.contents if content.text]
            if said[-1] in gates and not reads:
                await asyncio.to_thread(gates[said[-1]].wait)
            if reads and not any(any(content.function_responses()) for content in request.contents):
                call = FunctionCall(name="wait", args={"session": said[-1]})
                yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))
            else:
                yield LlmResponse(content=Content.of_text(" ".join(said), role="model"))

    def wait(session: str) -> str:
        """Wait for the test."""
        return gates[session].wait()

    with ShardedDeploy("local", tmp_path, server)(LlmAgent(name="root", model=Waits(), tools=[wait])) as rt:
        firsts = {session: rt.run(user_id="ada", session_id=session, message=session) for session in sessions}
        for gate in gates.values():
            gate.wait_for_caller()
        seconds = {session: rt.run(user_id="ada", session_id=session, message="more", run_config=STEER) for session in sessions}
        assert all(turn.steered is not None for turn in seconds.values())
        assert rt.schedules.list() == []
        for gate in gates.values():
            gate.open()
        for session, turn in seconds.items():
            first = firsts[session].result().text
            assert (first, turn.result().text) == ((f"{session} more",) * 2 if reads else (session, f"{session} {session} more"))
            assert [event.text for event in stored(rt, session) if event.author == "user"] == [session, "more"]


def test_a_turn_that_pauses_before_it_reads_gives_the_message_its_own(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"parts": [{"call": "wait"}, {"call": "ask"}]}, "own turn", "answered"])
    with local(LlmAgent(name="root", model=model, tools=[gate.tool(), ask])) as rt:
        first = at_gate(rt, gate)
        second = steer(rt, "more")
        gate.open()
        assert isinstance(first.result().outcome, Paused)
        assert (second.result().text, second.steered) == ("own turn", None)
        [call] = rt.pending(user_id="ada")
        assert rt.answer(call, {"allowed": True}).result().text == "answered"


@tool(long_running=True)
def ask() -> None:
    """Ask."""


def test_a_message_that_leaves_the_line_since_it_was_read_is_followed_in_the_turn_that_has_it(
    local: Deploy, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.driver.turns.subscriber.SEEK_S", 0.0)
    monkeypatch.setattr("runtime.driver.turns.subscriber.SEEK_TIMES", 3)
    model = ScriptedModel([{"parts": [{"call": "wait"}, {"call": "ask"}]}, {"call": "wait"}, {"call": "wait"}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[gate.tool(), ask])) as rt:
        first, second = at_gate(rt, gate), start(rt, "next")
        until(lambda: rt.turns.counts().waiting)
        late = steer(rt, "late")
        until(lambda: rt.turns.counts().waiting == 2)
        gate.forget_callers()
        gate.open()
        first.result()
        gate.wait_for_caller()
        until(lambda: late.invocation_id != first.invocation_id)
        steer(rt, "last")
        gate.forget_callers()
        gate.open()
        gate.wait_for_caller()
        until(lambda: late.invocation_id == second.invocation_id)
        for _ in range(20):
            # It is no longer looked for in the line.
            assert late.steered is not None
        gate.open()
        assert (second.result().text, late.result().text) == ("done", "done")


def test_a_turn_runs_again_from_a_step_with_the_messages_before_it(local: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, "done", "again", "once more"])
    with local(LlmAgent(name="root", model=model, tools=[gate.tool()])) as rt:
        first = at_gate(rt, gate)
        steer(rt, "more")
        gate.open()
        first.result()
        _, _, result, message, _ = stored(rt)

        def again(event: Event) -> str:
            turn = rt.retry(user_id="ada", session_id="s1", invocation_id=first.invocation_id, from_event=event.id)
            return turn.result().text

        assert (again(message), again(result)) == ("again", "once more")
        assert (texts(model, 2), texts(model, 3)) == (["begin", "more"], ["begin"])


def test_a_drain_answers_what_waits(local: Deploy, tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "said")
    agent = LlmAgent(name="root", model=model)
    rt = local(agent).start()
    start(rt, "begin")
    model.wait_until_called()
    steer(rt, "more")
    until(lambda: rt.turns.counts().waiting)
    drain = threading.Thread(target=rt.drain)
    drain.start()
    model.release()
    model.wait_until_called()
    model.release()
    drain.join()
    with local(agent) as rt:
        assert log(rt) == ["user: begin", "root: said", "user: more", "root: said"]


def test_a_store_without_schedules_refuses_it_and_the_turn_goes_on(local: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with local(agent, session_store=PlainStore()) as rt:
        first = at_gate(rt, gate)
        with pytest.raises(StoreError, match="it keeps no schedules"):
            start(rt, "more", run_config=STEER).result()
        gate.open()
        assert first.result().text == "done"
