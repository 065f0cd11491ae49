"""Failed turns that are run on from their last stored step (semantics.md section 2, "Failures")."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import (
    START,
    Content,
    CustomAgent,
    Event,
    Flow,
    Graph,
    InvocationContext,
    LlmAgent,
    NodeContext,
    RetryConfig,
    SequentialAgent,
    Task,
    ToolContext,
    node,
)
from actors.errors import AgentFailedError, InvocationNotFoundError, LlmCallsLimitExceededError, SessionBusyError, TurnStateError
from actors.messages.turn_info import TurnInfo
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.flow_agents import succeed, worker
from tests.support.graphs import named_node
from tests.support.runtimes import Deploy, run_turn, stored, stored_state

pytestmark = pytest.mark.sampled(2, of="module")


def failed(rt: Runtime, error: str = "not now") -> TurnInfo:
    """The turn of one message, which fails."""
    with pytest.raises(AgentFailedError, match=error):
        run_turn(rt, "go")
    turn = rt.turns.list(state="failed")[0]
    assert error in turn.error
    return turn


def retry(rt: Runtime, turn: TurnInfo, **options: object) -> Turn:
    return rt.retry(user_id=turn.user_id, session_id=turn.session_id, invocation_id=turn.invocation_id, **options)  # type: ignore[arg-type]


def count(tool_context: ToolContext) -> int:
    """Count the calls."""
    tool_context.state["counted"] = number = tool_context.state.get("counted", 0) + 1
    return int(number)


def test_what_has_ended_is_not_done_again(deploy: Deploy) -> None:
    first = LlmAgent(name="first", model=ScriptedModel(["one", "never"]))
    script = ScriptedModel([{"call": "count"}, ValueError("not now"), "two"])
    with deploy(SequentialAgent(name="all", sub_agents=[first, LlmAgent(name="second", model=script, tools=[count])])) as rt:
        turn = failed(rt)
        before = stored(rt)
        result = retry(rt, turn).result()
        assert (result.text, result.agent, result.invocation_id) == ("two", "all", turn.invocation_id)
        # Only what is new is given, and nothing stored is changed.
        assert [event.text for event in result.events] == ["two"]
        log = stored(rt)
        assert [event.id for event in log[: len(before)]] == [event.id for event in before]
        assert len(log) == len(before) + 1
        after = rt.turns.get(turn.user_id, turn.session_id, turn.invocation_id)
        assert (after.state, after.error, after.epoch) == ("finished", "", turn.epoch + 1)
        assert stored_state(rt, turn.session_id, turn.user_id)["counted"] == 1


def test_a_turn_is_retried_as_often_as_it_fails(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="m", model=ScriptedModel([ValueError("not now"), ValueError("nor now"), "now"]))) as rt:
        turn = failed(rt)
        with pytest.raises(AgentFailedError, match="nor now"):
            retry(rt, turn).result()
        assert retry(rt, turn).result().text == "now"
        with pytest.raises(TurnStateError, match="it is finished, and only a failed one can"):
            retry(rt, turn).result()


def test_another_deployment_retries_it(deploy: Deploy) -> None:
    agent = LlmAgent(name="m", model=ScriptedModel([ValueError("not now"), "now"]), tools=[count])
    with deploy(agent) as rt:
        turn = failed(rt)
    again = LlmAgent(name="m", model=ScriptedModel([{"call": "count"}, "later"]), tools=[count])
    with deploy(again) as rt:
        assert retry(rt, turn).result().text == "later"


def test_nodes_of_a_graph_go_on_from_those_that_have_failed(deploy: Deploy) -> None:
    def fail_twice(ctx: NodeContext, node_input: str) -> str:
        ctx.state["tries"] = tries = ctx.state.get("tries", 0) + 1
        if tries < 4:
            raise ValueError(f"not now {ctx.attempt_count}")
        return f"{node_input} {ctx.attempt_count}"

    shaky = node(fail_twice, retry_config=RetryConfig(max_attempts=2, initial_delay=0.01))
    with deploy(Graph(name="wf", edges=[(START, named_node("a"), shaky, named_node("b"))])) as rt:
        turn = failed(rt, "not now 2")
        # Attempts are counted anew.
        result = retry(rt, turn).result()
        assert [event.output for event in result.events if event.error_code is None][-1] == "b(a(go) 2)"
        assert sum(event.output == "a(go)" for event in stored(rt)) == 1


class FailsOnce(CustomAgent):
    """Fails the first time.

    Attributes:
        flag: a file that says that it has failed.
    """

    flag: Path

    def fail_at_first(self) -> None:
        if not self.flag.exists():
            self.flag.touch()
            raise ValueError("not now")


class Speaker(FailsOnce):
    """Says one, fails the first time, and says two."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("one", role="model"))
        self.fail_at_first()
        yield Event(content=Content.of_text("two", role="model"))


def test_code_that_begins_again_says_nothing_twice(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(Speaker(name="s", flag=tmp_path / "failed")) as rt:
        turn = failed(rt)
        assert [event.text for event in retry(rt, turn)] == ["two"]


class Silent(FailsOnce):
    """Fails the first time that it is asked to go, says nothing when it is retried, and answers other messages."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        if context.user_content.text != "go":
            yield Event(content=Content.of_text("hello", role="model"))
        else:
            self.fail_at_first()


def test_a_retry_that_stored_no_event_is_taken_back_with_the_turn_before_it(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(Silent(name="s", flag=tmp_path / "failed")) as rt:
        turn = failed(rt)
        log = stored(rt)
        run_turn(rt, "hi", invocation_id="e-2")
        assert retry(rt, turn).result().events == []
        place = turn.user_id, turn.session_id
        assert rt.turns.get(*place, turn.invocation_id).state == "finished"
        rt.sessions.rewind(*place, "e-2")
        again = rt.turns.get(*place, turn.invocation_id)
        assert (again.state, again.error, again.last_seq) == (turn.state, turn.error, turn.last_seq)
        assert [event.id for event in stored(rt)][: len(log)] == [event.id for event in log]
        assert retry(rt, turn).result().events == []


def test_a_flow_goes_on_with_the_round_that_has_failed(deploy: Deploy) -> None:
    agent = worker("w", succeed("t", "one"), ValueError("not now"), succeed("u", "two"))
    flow = Flow([Task("1", name="t"), Task("2", name="u", depends_on=["t"])], agents=[agent], max_parallel=1)
    with deploy(flow) as rt:
        turn = failed(rt)
        result = retry(rt, turn).result()
        assert {name: task.status for name, task in result.tasks.items()} == {"t": "successful", "u": "successful"}


def test_options_may_be_others(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "count"}, {"call": "count"}, "done"])
    with deploy(LlmAgent(name="m", model=model, tools=[count])) as rt:
        with pytest.raises(LlmCallsLimitExceededError):
            run_turn(rt, "go", run_config={"max_llm_calls": 2})
        [turn] = rt.turns.list(state="failed")
        with pytest.raises(LlmCallsLimitExceededError):
            retry(rt, turn).result()
        assert retry(rt, turn, run_config={"max_llm_calls": 5}).result().text == "done"


def test_what_cannot_be_retried_is_refused(deploy: Deploy) -> None:
    def wait(tool_context: ToolContext) -> None:
        """Ask a person."""
        tool_context.request_confirmation(hint="sure?")

    model = ScriptedModel([ValueError("not now"), {"call": "wait"}, "done"])
    with deploy(LlmAgent(name="m", model=model, tools=[wait])) as rt:
        turn = failed(rt)
        with pytest.raises(InvocationNotFoundError):
            rt.retry(user_id=turn.user_id, session_id=turn.session_id, invocation_id="e-none").result()
        run_turn(rt, "again")
        paused = rt.turns.list(state="paused")[0]
        with pytest.raises(TurnStateError, match="it is paused"):
            retry(rt, paused).result()
        assert rt.turns.get(turn.user_id, turn.session_id, turn.invocation_id).state == "failed"


def test_it_waits_for_no_other_turn(deploy: Deploy) -> None:
    def wait() -> str:
        """Take a while."""
        time.sleep(1.0)
        return "slow"

    model = ScriptedModel([ValueError("not now"), {"call": "wait"}, "slow", "now"])
    with deploy(LlmAgent(name="m", model=model, tools=[wait])) as rt:
        turn = failed(rt)
        other = rt.run(user_id=turn.user_id, session_id=turn.session_id, message="meanwhile")
        events = iter(other)
        next(events)
        with pytest.raises(SessionBusyError):
            retry(rt, turn).result()
        other.result()
        assert retry(rt, turn).result().text == "now"
