"""Turns that are run again from a step (semantics.md, "Run again from a step"): `rt.retry(…, from_event=…)`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors import Event, LlmAgent, RunConfig, SequentialAgent, ToolContext, tool
from actors.errors import AgentFailedError, RequestError, TurnStateError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.console import have_joined, invoke
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import Deploy, run_turn, stored, stored_state
from tests.support.stores.logged_usage import fold

pytestmark = pytest.mark.sampled(2, of="module")

ADA, S1 = "ada", "s1"


def count(tool_context: ToolContext) -> int:
    """Count the calls."""
    tool_context.state["counted"] = number = tool_context.state.get("counted", 0) + 1
    return int(number)


def again(rt: Runtime, events: list[Event], step: int, **options: object) -> Turn:
    """Run a turn again from one of its events."""
    turn = events[0].invocation_id
    return rt.retry(user_id=ADA, session_id=S1, invocation_id=turn, from_event=events[step].id, **options)  # type: ignore[arg-type]


def test_a_finished_turn_runs_again_from_any_of_its_steps(deploy: Deploy) -> None:
    calls: list[Any] = [{"call": "count"}, {"call": "count"}, "first", {"call": "count"}, "second", "third", "fourth"]
    with deploy(LlmAgent(name="root", model=ScriptedModel(calls), tools=[count])) as rt:
        run_turn(rt, "go")
        log = stored(rt)
        kinds = ["go", "call 1", "response 1", "call 2", "response 2", "first"]
        assert (len(log), stored_state(rt)["counted"]) == (len(kinds), 2)
        # After the response to the first call: the model is asked what comes then, and calls once more.
        result = again(rt, log, 2).result()
        assert (result.text, result.invocation_id) == ("second", log[0].invocation_id)
        assert stored_state(rt)["counted"] == 2
        now = [event for event in stored(rt) if event.invocation_id == log[0].invocation_id]
        assert [event.id for event in now[:3]] == [event.id for event in log[:3]]
        assert now[-1].text == "second"
        assert {event.id for event in log[3:]}.isdisjoint(event.id for event in now)
        # After the user's message nothing has happened yet.
        assert again(rt, now, 0).result().text == "third"
        assert "counted" not in stored_state(rt)
        # Once more, and the session goes on as ever.
        assert rt.turns.get("ada", "s1", log[0].invocation_id).state == "finished"
        assert [event.text for event in run_turn(rt, "more")] == ["fourth"]


def test_a_call_whose_response_is_taken_back_is_made_again(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel([{"call": "count"}, "one", "two"]), tools=[count])) as rt:
        run_turn(rt, "go")
        log = stored(rt)
        assert again(rt, log, 1).result().text == "two"
        now = [event for event in stored(rt) if event.content is not None]
        [before], [after] = log[2].function_responses(), now[2].function_responses()
        assert (before.id, before.response) == (after.id, after.response)
        assert log[2].id != now[2].id
        assert stored_state(rt)["counted"] == 1


def test_a_workflow_goes_on_with_the_child_at_which_the_step_is(deploy: Deploy) -> None:
    model = ScriptedModel(["one", "bad", "good"])
    with deploy(SequentialAgent(name="all", sub_agents=[LlmAgent(name=name, model=model) for name in ("a", "b")])) as rt:
        run_turn(rt, "go")
        log = stored(rt)
        of_a = next(place for place, event in enumerate(log) if event.text == "one")
        assert again(rt, log, of_a).result().text == "good"
        assert [(event.author, event.text) for event in stored(rt) if event.text] == [("user", "go"), ("a", "one"), ("b", "good")]


def test_an_agent_that_speaks_again_keeps_the_floor_in_the_next_deployment(deploy: Deploy) -> None:
    def tree(*answers: Any) -> LlmAgent:
        return LlmAgent(
            name="root",
            model=ScriptedModel([{"transfer": "billing"}, "root"]),
            sub_agents=[LlmAgent(name="billing", model=ScriptedModel(list(answers)))],
        )

    with deploy(tree("bad", "good")) as rt:
        run_turn(rt, "go")
        log = stored(rt)
        of_root = max(place for place, event in enumerate(log) if event.author == "root")
        assert again(rt, log, of_root).result().text == "good"
    with deploy(tree("at your service")) as rt:
        assert [(event.author, event.text) for event in run_turn(rt, "more")] == [("billing", "at your service")]


def test_failed_cancelled_and_paused_turns_run_again_too(local: Deploy) -> None:
    @tool(require_confirmation=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    script: list[Any] = [{"call": "pay"}, "paid it", {"call": "pay"}, ValueError("not now"), "at last"]
    with local(LlmAgent(name="root", model=ScriptedModel(script), tools=[pay])) as rt:
        run_turn(rt, "go")
        [question] = rt.pending(user_id=ADA, session_id=S1)
        rt.answer(question, confirmed=False, user_id=ADA, session_id=S1).result()
        log = stored(rt)
        # The answer is taken back: the turn waits for it once more.
        place = next(place for place, event in enumerate(log) if list(event.function_calls()))
        again(rt, log, place).result()
        [asked] = rt.pending(user_id=ADA, session_id=S1)
        assert asked.call_id == question.call_id
        # And so is the question.
        again(rt, stored(rt), 0).result()
        [other] = rt.pending(user_id=ADA, session_id=S1)
        assert other.call_id != question.call_id
        with pytest.raises(RequestError):
            rt.answer(question, confirmed=True, user_id=ADA, session_id=S1).result()
        with pytest.raises(AgentFailedError, match="not now"):
            rt.answer(other, confirmed=True, user_id=ADA, session_id=S1).result()
        log = [event for event in stored(rt) if event.content is not None]
        assert again(rt, log, len(log) - 1).result().text == "at last"


def test_what_was_taken_back_was_paid_for(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=MeteredModel(ScriptedModel([{"call": "count"}, "one", "two", "three"])), tools=[count])
    with deploy(root) as rt:
        run_turn(rt, "go")
        log = stored(rt)
        paid = list(log)
        for step, text in ((2, "two"), (2, "three")):
            assert again(rt, log, step).result().text == text
            paid.append(stored(rt)[-1])
            used = {agent: sums.llm_calls for agent, sums in rt.usage("ada", by="agent").groups.items()}
            assert used == {"root": sum(amounts.llm_calls for amounts in fold(paid).values())}
            assert rt.usage("ada", "s1", log[0].invocation_id).total.output_tokens == rt.usage().total.output_tokens
        assert rt.usage().total.llm_calls == 4


def test_new_options_hold_for_the_turn_from_there_on(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([{"call": "count"}, "one", "two"]), tools=[count])) as rt:
        run_turn(rt, "go")
        with pytest.raises(Exception, match="max_llm_calls"):
            again(rt, stored(rt), 2, run_config=RunConfig(max_llm_calls=1)).result()
        # The one that stays counts.
        assert again(rt, stored(rt), 2, run_config=RunConfig(max_llm_calls=2)).result().text == "two"


def test_what_others_have_said_is_not_taken_back(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel([*"abcdef"]))) as rt:
        run_turn(rt, "go")
        first = stored(rt)
        run_turn(rt, "more")
        second = stored(rt)[2:]
        with pytest.raises(TurnStateError, match=f"turn '{second[0].invocation_id}' has spoken after it. Rewind"):
            again(rt, first, 0).result()
        with pytest.raises(RequestError, match="it has no such event"):
            again(rt, [second[0], first[1]], 1).result()
        rt.sessions.rewind("ada", "s1", second[0].invocation_id)
        assert again(rt, first, 0).result().text == "c"
        with pytest.raises(RequestError, match="it has no such event, or no longer"):
            again(rt, first, 1).result()


def test_a_turn_that_runs_is_not_run_again(local: Deploy) -> None:
    is_there, may_go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        is_there.set()
        may_go_on.wait(30)
        return "done"

    with local(LlmAgent(name="root", model=ScriptedModel([{"call": "wait"}, "end"]), tools=[wait])) as rt:
        turn = rt.run(user_id=ADA, session_id=S1, message="go")
        assert is_there.wait(30)
        with pytest.raises(TurnStateError, match="runs: cancel it before"):
            again(rt, stored(rt), 0).result()
        may_go_on.set()
        assert turn.result().text == "end"


def test_a_turn_is_run_again_from_a_shell(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    with local(LlmAgent(name="root", model=ScriptedModel(["one", "two"]))) as rt:
        run_turn(rt, "go")
        have_joined(monkeypatch, rt)
        event = stored(rt)[0]
        assert invoke("retry", "desk", "s1", event.invocation_id or "", "--user", "ada", "--from", event.id).output == "two\n"
        with pytest.raises(RequestError, match="--from goes with a session and a turn"):
            invoke("retry", "desk", "s1", "--from", event.id)
