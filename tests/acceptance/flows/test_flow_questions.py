"""Interactive tasks: their agents ask the user, the turn waits, and goes on with the answer (semantics.md section 7)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import AnyComplete, Flow, LlmAgent, LlmRequest, LlmResponse, MaxLLMCalls, Paused, RunConfig, Task
from actors.errors import DefinitionError, RequestError, TaskFailedError
from actors.testing import Reply, ScriptedModel, responses
from runtime import Question, Runtime
from tests.support.agents.flow_agents import ME, asked, succeed, worker
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, stored

pytestmark = pytest.mark.sampled(2, of="module")


def ask(question: Any) -> Reply:
    """A call that asks the user."""
    return {"call": "ask_user", "args": {"question": question}}


class Host:
    """A stateless model: it asks for a move as often as `rounds` says, then finishes with all the answers."""

    def __init__(self, rounds: int = 2) -> None:
        self._rounds = rounds

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        given = [str(each.response.get("result")) for content in request.contents for each in content.function_responses()]
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        done = {"call": finish, "args": {"result": " ".join(given)}}
        for response in responses(ask(f"Move {len(given) + 1}?") if len(given) < self._rounds else done, stream=stream):
            yield response


class User:
    """Says x to every question."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, question: Question) -> str:
        self.heard.append(question.text)
        return "x"


def game() -> LlmAgent:
    return LlmAgent(name="root", model=Host())


def test_a_question_pauses_the_turn_until_it_is_answered_in_any_way_there_is(local: Deploy) -> None:
    flow = Flow([Task("Play.", name="play", interactive=True)], agents=["root"])
    with local(game()) as rt:
        turn = rt.run_flow(flow, **ME)
        assert isinstance(turn.result().outcome, Paused)
        (call,) = turn.pending
        assert (call.name, dict(call.args), call.agent) == ("ask_user", {"question": "Move 1?"}, "root")
        second = rt.answer(call, "rock")
        assert isinstance(second.result().outcome, Paused)
        (call,) = rt.pending(user_id="ada", session_id="s1")
        last = second.answer(call, "paper").result()
        assert last.tasks["play"].result == "rock paper"
        assert last.invocation_id == turn.invocation_id


def test_a_flow_that_is_given_again_with_the_answer_goes_on_in_a_new_deployment(tmp_path: Path) -> None:
    flow = Flow([Task("Play.", name="play", interactive=True, context={"game": "rps"})], agents=["root"])
    local = Deploy("local", tmp_path)
    answers: list[Any] = ["rock", "paper"]
    with local(game()) as rt:
        turn = rt.run_flow(flow, **ME)
        assert isinstance(turn.result().outcome, Paused)
    for answer in answers:
        with local(game()) as rt:
            (call,) = rt.pending(user_id="ada", session_id="s1")
            response = {"id": call.call_id, "name": call.name, "response": {"result": answer}}
            message = {"role": "user", "parts": [{"function_response": response}]}
            result = rt.run_flow(flow, **ME, message=message).result()
    assert result.tasks["play"].result == "rock paper"


def test_agents_are_told_of_the_tool_in_interactive_tasks_alone(local: Deploy) -> None:
    agent = worker("a", succeed("t", "x"), succeed("u", "y"))
    with local(Flow([Task("1", name="t", interactive=True), Task("2", name="u", depends_on=["t"])], agents=[agent])) as rt:
        rt.run(**ME, message="go").result()
    first, second = asked(agent)
    (tool,) = [tool for tool in first.tools if tool.name == "ask_user"]
    assert tool.parameters is not None
    assert (list(tool.parameters["properties"]), tool.parameters["required"]) == (["question"], ["question"])
    assert "You can ask the user about it with `ask_user`." in first.system_instruction
    assert "ask_user" not in [tool.name for tool in second.tools]
    assert "ask_user" not in second.system_instruction


@pytest.mark.parametrize("question", [None, 3, " "])
def test_a_call_without_a_question_is_an_error_to_the_model_and_waits_for_nobody(local: Deploy, question: Any) -> None:
    agent = worker("a", ask(question), succeed("t", "x"))
    with local(Flow([Task("1", name="t", interactive=True)], agents=[agent])) as rt:
        assert rt.run(**ME, message="go").result().tasks["t"].status == "successful"
    (told,) = asked(agent)[1].contents[-1].function_responses()
    assert "ask_user needs the argument question, a text" in told.response["error"]


def test_another_agent_of_the_task_sees_the_question_with_the_answer(local: Deploy) -> None:
    agents = [worker("a", ask("Which colour?"), {"call": "end_turn"}), worker("b", succeed("t", "blue"))]
    with local(Flow([Task("1", name="t", interactive=True)], agents=agents)) as rt:
        turn = rt.run(**ME, message="go")
        turn.result()
        turn.answer(turn.pending[0], "blue").result()
    seen = "\n".join(part.text or "" for content in asked(agents[1])[0].contents for part in content.parts)
    assert '[a] called tool `ask_user` with parameters: {"question":"Which colour?"}' in seen
    assert '`ask_user` tool returned result: {"result":"blue"}' in seen


def test_run_task_has_its_questions_answered_by_a_function(local: Deploy) -> None:
    answers = {"Move 1?": "rock", "Move 2?": 7}
    questions: list[Question] = []

    def on_question(question: Question) -> object:
        questions.append(question)
        return answers[question.text]

    async def on_question_async(question: Question) -> object:
        await asyncio.sleep(0)
        return on_question(question)

    with local(game()) as rt:
        for function in (on_question, on_question_async):
            assert rt.run_task("Play.", name="play", interactive=True, on_question=function) == "rock 7"
            assert asyncio.run(rt.aio.run_task("Play.", name="play", interactive=True, on_question=function)) == "rock 7"
    assert [(question.text, question.agent, question.task) for question in questions[:2]] == [
        ("Move 1?", "root", "play"),
        ("Move 2?", "root", "play"),
    ]
    assert len({question.call_id for question in questions}) == len(questions) == 8


def test_a_function_that_waits_does_not_hold_up_the_event_loop(local: Deploy) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def on_question(question: Question) -> str:
        is_asked.set()
        may_answer.wait(20)
        return "x"

    async def play(rt: Runtime) -> None:
        task = asyncio.create_task(rt.aio.run_task("Play.", interactive=True, on_question=on_question))
        await asyncio.to_thread(is_asked.wait, 20)
        may_answer.set()
        assert await task == "x x"

    with local(game()) as rt:
        asyncio.run(play(rt))


def test_several_questions_are_answered_one_after_the_other(local: Deploy) -> None:
    model = ScriptedModel([{"parts": [ask("One?"), ask("Two?")]}, ask("Three?"), succeed("task_1", "done")])
    root = LlmAgent(name="root", model=model)
    user = User()
    with local(root) as rt:
        assert rt.run_task("Ask.", interactive=True, on_question=user) == "done"
    assert user.heard == ["One?", "Two?", "Three?"]


def test_a_subtask_that_is_not_interactive_asks_nobody(local: Deploy) -> None:
    root = worker("root", succeed("part", "x"), ask("What?"), succeed("whole", "y"))
    whole = Task("Whole", name="whole", subtasks=[Task("Part", name="part")], interactive=True)
    with local(root) as rt:
        assert rt.run_task(whole, on_question=lambda question: question.task) == "y"
    (told,) = asked(root)[2].contents[-1].function_responses()
    assert told.response == {"result": "whole"}


def test_what_on_question_raises_is_raised_and_leaves_the_turn_waiting(local: Deploy) -> None:
    def refuses(question: Question) -> str:
        raise LookupError("nobody is at the door")

    with local(game()) as rt:
        with pytest.raises(LookupError, match="nobody is at the door"):
            rt.run_task("Play.", interactive=True, user_id="ada", session_id="s1", on_question=refuses)
        (call,) = rt.pending(user_id="ada", session_id="s1")
        assert rt.answer(call, "x").result().tasks["task_1"].status == "running"
        with pytest.raises(RequestError, match=r"on_question returned None for 'Move 1\?': it has to return the answer"):
            rt.run_task("Play.", interactive=True, on_question=lambda question: None)
        with pytest.raises(RequestError, match="on_question must be a function of a Question, not str"):
            rt.run_task("Play.", interactive=True, on_question="x")  # type: ignore[arg-type]
        with pytest.raises(TaskFailedError, match=re.escape("give run_task on_question=…")):
            rt.run_task("Play.", interactive=True)
        with pytest.raises(TaskFailedError, match=re.escape("give run_task on_question=…")):
            asyncio.run(rt.aio.run_task("Play.", interactive=True))


def test_options_of_the_turn_hold_after_an_answer_too(local: Deploy) -> None:
    root = worker("root", ask("A?"), *(["talk"] * 5))
    with local(root) as rt, pytest.raises(Exception, match="max_llm_calls"):
        rt.run_task("Ask.", interactive=True, on_question=lambda _: "x", run_config=RunConfig(max_llm_calls=3))


def test_ask_user_is_refused_as_another_tools_name_only_where_a_task_is_interactive(local: Deploy) -> None:
    def ask_user() -> str:
        """Ask in another way."""
        return "x"

    root = worker("root", {"call": "ask_user"}, succeed("task_1", "y"), tools=[ask_user])
    with local(root) as rt:
        assert rt.run_task("Ask.") == "y"
        with pytest.raises(DefinitionError, match="but has another one: rename that"):
            rt.run_task("Ask.", interactive=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("who", get_args(Victim))
def test_a_question_is_asked_and_answered_once_whoever_is_lost(who: Victim) -> None:
    def play(*losses: Loss) -> tuple[int, list[str]]:
        with quick_folder() as folder:
            rt, engine = lossy_runtime(game(), Path(folder), losses)
            user = User()
            with rt:
                task = Task("Play.", name="play", agents=["root"], interactive=True)
                answered = rt.run_task(
                    task,
                    session_id="s1",
                    on_question=user,
                    run_config=RunConfig(timeout=30),
                )
                session = rt.sessions.get("user", "s1")
                assert session is not None
                assert answered == "x x"
                assert user.heard == ["Move 1?", "Move 2?"]
                called = Counter(call.id for event in session.events for call in event.function_calls())
                assert set(called.values()) == {1}
                assert len(called) == 3
            return engine.messages, engine.lost

    messages, _ = play()
    lost = [name for at in range(0, messages, max(1, messages // 5)) for name in play(Loss(at, who, at % 2 == 0))[1]]
    assert lost


def test_an_interactive_task_on_ray_survives_the_kill_of_agent_and_runner(tmp_path: Path, local_ray: str) -> None:
    """While the user thinks, the processes of the agent and of the Runner are killed."""

    def on_question(question: Question) -> str:
        seen = rt.statistics()
        victim = seen.agents["root"].pid if question.text == "Move 1?" else seen.runner.pid
        os.kill(victim, signal.SIGKILL)
        return {"Move 1?": "rock", "Move 2?": "paper"}[question.text]

    with Deploy("ray", tmp_path)(game()) as rt:
        played = rt.run_task(
            "Play.", name="play", interactive=True, context={"game": ["rock", "paper"]}, session_id="s1", on_question=on_question
        )
        assert played == "rock paper"
        calls = [call.name for event in stored(rt, "s1", "user") for call in event.function_calls()]
        assert calls == ["ask_user", "ask_user", "succeed_play"]
        # A program that has joined asks and stops in the same ways.
        tasks = [Task("Play.", name=name, interactive=True, context={"game": "rps"}) for name in ("one", "two")]
        with Runtime.connect("test") as joined:
            assert joined.run_task(tasks[0], on_question=User()) == "x x"
            flow = Flow(tasks, agents=["root"], until=AnyComplete(tasks=[tasks[0]]) | MaxLLMCalls(9))
            turn = joined.run_flow(flow, **ME)
            while isinstance(turn.result().outcome, Paused):
                turn = turn.answer(turn.pending[0], "y")
            result = turn.result()
        assert (result.tasks["one"].result, result.tasks["two"].status, bool(result.stopped)) == ("y y", "skipped", True)
