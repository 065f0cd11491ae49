"""What a turn does, what it waits for, and what has failed in it is told while it runs and afterwards."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from actors import AgentTool, LlmAgent, LongRunningFunctionTool, ModelLimits, ParallelAgent, ToolContext
from actors.errors import AgentFailedError, InvocationNotFoundError
from actors.messages.content import Content
from actors.messages.event import Usage
from actors.messages.llm import LlmResponse
from actors.testing import PatternModel, Reply, ScriptedModel, reply_parts
from runtime import Runtime, Settings, Turn
from runtime.driver.turns.description import TurnDescription
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn


class Gate:
    """A tool that tells its process through one named pipe, and waits at another until the test releases it.

    Args:
        folder: for the pipes.
    """

    def __init__(self, folder: Path) -> None:
        self.called, self.gate = folder / "tool-called", folder / "tool-gate"
        os.mkfifo(self.called)
        os.mkfifo(self.gate)

    def hold(self, order: str) -> str:
        """Wait."""
        self.called.write_text(str(os.getpid()))
        return self.gate.read_text()

    def process(self) -> int:
        """Wait until it is called, and return the process."""
        return int(self.called.read_text())

    def release(self) -> None:
        self.gate.write_text("held")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


HOLD = {"call": "hold", "args": {"order": "42"}, "id": "call-1"}


def holding(gate: Gate, name: str = "root") -> LlmAgent:
    """An agent that calls the tool, and then answers."""
    model = PatternModel([("tool:", "done"), ("", HOLD)])
    return LlmAgent(name=name, description="Holds.", model=model, tools=[gate.hold])


def begun(rt: Runtime, user: str = "ada") -> Turn:
    return rt.run(user_id=user, session_id="s1", message="please hold 42", on_leave="continue")


def described(rt: Runtime, turn: Turn, user: str = "ada") -> TurnDescription:
    return rt.turns.describe(user, "s1", turn.invocation_id)


def test_a_tool_that_runs_is_told_with_its_agent_and_since_when(deploy: Deploy, gate: Gate) -> None:
    before_s = time.time()
    with deploy(holding(gate)) as rt:
        turn = begun(rt)
        process = gate.process()
        now = described(rt, turn)
        assert (now.turn.state, now.message) == ("running", "please hold 42")
        [call] = now.tool_calls
        assert (call.name, call.args, call.agent, call.call_id, call.seq) == ("hold", {"order": "42"}, "root", "call-1", 2)
        assert before_s <= call.called_s <= time.time()
        [run] = now.runs
        assert (run.agent, run.branch, run.asked_by, run.has_process) == ("root", "", "", True)
        assert before_s <= run.begun_s <= call.called_s
        assert (now.losses, len(now.pending), len(now.model_waits)) == ({}, 0, 0)
        losses = {}
        if deploy.engine == "ray":
            os.kill(process, signal.SIGKILL)
            gate.process()
            now = described(rt, turn)
            losses = {"root": 1}
            assert now.losses == losses
            assert rt.statistics().agents["root"].counts["restarts"] == 1
            assert [call.call_id for call in now.tool_calls] == ["call-1"]
            assert [run.agent for run in now.runs] == ["root"]
        gate.release()
        assert turn.result().text == "done"
        after = described(rt, turn)
        assert (after.turn.state, after.runs, after.tool_calls, after.losses) == ("finished", (), (), losses)
        assert [lost.agent for lost in after.turn.lost] == list(losses)
        [share] = after.agents
        assert (share.agent, share.events, share.tool_calls, share.failed_tools) == ("root", 3, 1, 0)
        assert share.first_s == call.called_s <= share.last_s
        with pytest.raises(InvocationNotFoundError):
            rt.turns.describe("ada", "s1", "none")


def test_agents_that_run_for_others_are_told_with_those(local: Deploy, gate: Gate) -> None:
    asking = LlmAgent(name="left", model=PatternModel([("", {"call": "expert", "args": {"request": "hold"}})]))
    asking = asking.model_copy(update={"tools": (AgentTool(holding(gate, "expert")),)})
    root = ParallelAgent(name="all", sub_agents=[asking, LlmAgent(name="right", model=PatternModel([], default="done"))])
    with local(root) as rt:
        turn = begun(rt)
        gate.process()
        until(lambda: [share.agent for share in described(rt, turn).agents if share.agent == "right"])
        now = described(rt, turn)
        runs = {run.agent: run for run in now.runs if run.agent != "right"}
        assert [(name, run.asked_by) for name, run in runs.items()] == [("all", ""), ("left", "all"), ("expert", "left")]
        assert runs["left"].branch == "all.left"
        assert [(call.agent, call.name) for call in now.tool_calls] == [("left", "expert"), ("expert", "hold")]
        turn.cancel()
        after = described(rt, turn)
        assert (after.turn.state, after.runs, after.tool_calls) == ("cancelled", (), ())
        gate.release()


def test_a_turn_in_line_tells_how_many_come_before_it(local: Deploy, gate: Gate) -> None:
    with local(holding(gate)) as rt:
        first = begun(rt)
        gate.process()
        second, third = begun(rt), begun(rt)
        until(lambda: rt.turns.counts().waiting == 2)
        assert [described(rt, each).turns_before for each in (second, third)] == [1, 2]
        assert described(rt, third).turn.state == "waiting"
        for turn in (third, second, first):
            turn.cancel()
        gate.release()


def refund(amount: int) -> None:
    """Ask a person."""


def test_a_turn_that_is_paused_tells_for_what(local: Deploy) -> None:
    model = ScriptedModel([{"call": "refund", "args": {"amount": 80}, "id": "c"}, "paid"])
    with local(LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(refund)])) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="money")
        turn.result()
        now = described(rt, turn)
        assert (now.turn.state, now.tool_calls) == ("paused", ())
        assert [(call.call_id, call.name, call.args) for call in now.pending] == [("c", "refund", {"amount": 80})]
        rt.answer("c", {"paid": True}, user_id="ada", session_id="s1").result()
        after = described(rt, turn)
        assert (after.turn.state, after.turn.epoch, after.pending, after.message) == ("finished", 2, (), "money")


def broken(tool_context: ToolContext) -> str:
    """Fail."""
    raise ValueError("the cable is cut")


def fail_later(callback_context: object) -> None:
    raise KeyError("customer")


def test_what_has_failed_is_told_with_the_place_in_the_code_and_with_tools_that_failed(local: Deploy) -> None:
    model = ScriptedModel([{"call": "broken"}, "then not"])
    with local(LlmAgent(name="root", model=model, tools=[broken], after_agent_callback=fail_later)) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, "hi", invocation_id="e-1")
        now = rt.turns.describe("ada", "s1", "e-1")
        assert (now.turn.state, now.turn.error) == ("failed", "KeyError: 'customer'")
        assert 'raise KeyError("customer")' in now.traceback
        assert [(share.agent, share.tool_calls, share.failed_tools) for share in now.agents] == [("root", 1, 1)]


def answer(reply: Reply, tokens: int) -> LlmResponse:
    usage = Usage(prompt_token_count=tokens, candidates_token_count=1, total_token_count=tokens + 1)
    return LlmResponse(content=Content(role="model", parts=reply_parts(reply)[0]), usage=usage)


def test_tokens_are_summed_up_by_agent(local: Deploy) -> None:
    model = ScriptedModel([answer({"transfer": "billing"}, 10), answer("yours", 20)])
    root = LlmAgent(name="root", model=model, sub_agents=[LlmAgent(name="billing", description="Bills.")])
    with local(root) as rt:
        run_turn(rt, "the bill", invocation_id="e-1")
        now = rt.turns.describe("ada", "s1", "e-1")
        assert [(share.agent, share.usage.total_token_count) for share in now.agents] == [("root", 11), ("billing", 21)]
        assert now.usage == Usage(prompt_token_count=30, candidates_token_count=2, total_token_count=32)


@pytest.fixture
def model(tmp_path: Path) -> GatedModel:
    return GatedModel(tmp_path, "done")


def test_a_model_call_that_waits_for_its_limit_tells_how_many_are_before_it(local: Deploy, model: GatedModel) -> None:
    settings = Settings(model_limits={"GatedModel": ModelLimits(max_concurrency=1)})
    with local(LlmAgent(name="root", model=model), settings=settings) as rt:
        turns = {user: begun(rt, user) for user in ("ada", "bob")}
        model.wait_until_called()
        until(lambda: rt.statistics().models["GatedModel"]["waiting"] == 1)
        turns["eve"] = begun(rt, "eve")
        until(lambda: rt.statistics().models["GatedModel"]["waiting"] == 2)
        # The one that waits shortest first: time goes on between two looks.
        waits = {user: described(rt, turns[user], user).model_waits for user in ("eve", "ada", "bob")}
        told = {user: [(wait.model, wait.before, wait.running) for wait in found] for user, found in waits.items()}
        running = next(user for user, found in told.items() if not found)
        assert running in ("ada", "bob")
        [other] = {"ada", "bob"} - {running}
        assert told[other] == [("GatedModel", 0, 1)]
        assert told["eve"] == [("GatedModel", 1, 1)]
        assert 0 <= waits["eve"][0].waiting_s <= waits[other][0].waiting_s < 60
        model.release()
        for _ in ("the other", "eve"):
            model.wait_until_called()
            model.release()
        assert [turn.result().text for turn in turns.values()] == ["done"] * 3
