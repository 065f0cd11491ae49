"""Requests that were not recorded are built again from the log, as they went out, or left out with the reason."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from actors import (
    AgentTool,
    Budget,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
    Toolset,
)
from actors.definitions.planners.plan_re_act import PlanReActPlanner
from actors.definitions.tools.base import Tool
from actors.messages.codec import encode
from actors.messages.llm.recorded import RecordedCall
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime, Settings
from tests.support.agents.workflow_agents import answer
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.vectors.shared_runtimes import SESSION_ID, CaseRuntimes, RuntimeFactory
from tests.support.vectors.vector_notation import Case, load_cases
from tests.support.vectors.vector_runner import CaseRun

pytestmark = pytest.mark.sampled(2, of="module")


CASES = [case for case in load_cases() if "turns" in case.given and case.given.get("script")]


def asked(rt: Runtime, session_id: str = "s1", **options: bool) -> list[RecordedCall]:
    turns = sorted(rt.turns.list("ada", session_id), key=lambda turn: turn.first_seq)
    return [call for turn in turns for call in rt.turns.requests("ada", session_id, turn.invocation_id, **options)]


def reasons(rt: Runtime) -> set[str]:
    return {call.omitted for call in asked(rt)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_requests_of_recorded_turns_are_rebuilt_to_the_byte(case: Case, tmp_path: Path) -> None:
    runtimes = CaseRuntimes(RuntimeFactory("local", tmp_path), [case])
    try:
        played = runtimes.of_case(case)
        went_out = Counter(map(encode, CaseRun(case, played).run().requests))
        turns = played.runtime.turns.list(case.id, SESSION_ID)
        calls = [call for turn in turns for call in played.runtime.turns.requests(case.id, SESSION_ID, turn.invocation_id)]
        session = played.runtime.sessions.get(case.id, SESSION_ID)
        assert session is not None
        answers = [event.id for event in session.events if event.model_version is not None]
    finally:
        runtimes.close()
    assert {call.event_id for call in calls} == set(answers)
    assert all(call.rebuilt for call in calls)
    rebuilt = Counter(encode(call.request) for call in calls)
    assert rebuilt <= went_out, rebuilt - went_out


class Noting(PatternModel):
    """Keeps what it is asked in a file, since it may be asked in another process."""

    def __init__(self, file: Path, *patterns: object) -> None:
        super().__init__(list(patterns), default="done")  # type: ignore[arg-type]
        self.file = file

    async def generate(self, request: LlmRequest, *, stream: bool):  # type: ignore[no-untyped-def]
        """Keep the request, and answer."""
        with self.file.open("a") as file:
            file.write(encode(request).hex() + "\n")
        async for response in super().generate(request, stream=stream):
            yield response


def look_up(order: str, tool_context: ToolContext) -> dict[str, str]:
    """Look an order up."""
    tool_context.state["looked"] = order
    return {"order": order}


def desk(file: Path, says: str = "Bill") -> LlmAgent:
    """A tree with state in an instruction, a transfer, and an agent as a tool."""
    call = {"call": "look_up", "args": {"order": "42"}}
    expert = LlmAgent(name="expert", model=Noting(file), instruction="Know {looked?}.", description="Knows.")
    billing = LlmAgent(
        name="billing",
        description="Pays.",
        model=Noting(file, ("tool:expert", "paid"), ("tool:look_up", {"call": "expert", "args": {"request": "how"}}), ("", call)),
        instruction=f"{says} {{customer}}, who asked for {{looked?}}.",
        tools=[look_up, AgentTool(expert)],
    )
    return LlmAgent(name="desk", model=Noting(file, ("bill", {"transfer": "billing"})), sub_agents=[billing])


def test_agents_with_state_tools_and_transfers_are_rebuilt_on_both_engines_also_after_losses_and_updates(
    deploy: Deploy, tmp_path: Path
) -> None:
    file = tmp_path / "asked"
    with deploy(desk(file)) as rt:
        rt.sessions.create("ada", "s1", {"customer": "Ada"})
        for message in ("hi", "the bill", "and the bill"):
            run_turn(rt, message)
            if deploy.engine == "ray":
                os.kill(next(iter(rt.statistics().agents.values())).pid, signal.SIGKILL)
        for says in ("Charge", "Ask"):
            rt.update(desk(file, says))
            run_turn(rt, f"the bill, {says}")
        calls = asked(rt)
        answers = [event.id for event in stored(rt) if event.model_version is not None]
        if deploy.engine == "ray":
            os.kill(rt.statistics().runner.pid, signal.SIGKILL)
        again = asked(rt)
    went_out = {bytes.fromhex(line) for line in file.read_text().split()}
    assert [call.event_id for call in calls] == answers
    assert {encode(call.request) for call in calls} == went_out
    assert [encode(call.request) for call in again] == [encode(call.request) for call in calls]
    of_billing = [call.request.system_instruction for call in calls if call.agent == "billing" and call.request is not None]
    assert "Bill Ada, who asked for ." in of_billing[0]
    assert "Bill Ada, who asked for 42." in of_billing[1]
    assert [sum(says in each for each in of_billing) for says in ("Charge Ada", "Ask Ada")] == [3, 3]
    assert {call.model for call in calls} == {"Noting"}
    assert all(call.ended_s >= call.begun_s > 0 for call in calls)


def test_recorded_calls_stay_as_they_are_among_those_that_are_rebuilt(local: Deploy) -> None:
    settings = Settings(record_requests=0.5)
    with local(LlmAgent(name="root", model=PatternModel([], default="hi")), settings=settings) as rt:
        for number in range(20):
            run_turn(rt, f"message {number}", invocation_id=f"e-{number}")
        calls = asked(rt)
        assert Counter(call.rebuilt for call in calls).keys() == {True, False}
        assert [call.request.contents[-1].text for call in calls if call.request] == [f"message {number}" for number in range(20)]
        assert [call.event_id for call in asked(rt, rebuild=False)] == [call.event_id for call in calls if not call.rebuilt]
        assert [bool(call.attempts) for call in calls] == [not call.rebuilt for call in calls]
        assert [len(rt.turns.requests("ada", "s1", f"e-{number}", limit=1)) for number in range(20)] == [1] * 20


def test_requests_stand_in_the_order_of_the_log_where_a_clock_is_set_back(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local(desk(tmp_path / "asked")) as rt:
        rt.sessions.create("ada", "s1", {"customer": "Ada"})
        now, back = time.time(), itertools.count()
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: now - next(back))
            run_turn(rt, "the bill")
        answers = [event for event in stored(rt) if event.model_version is not None]
        calls = asked(rt)
    assert answers[0].timestamp > answers[-1].timestamp
    assert [call.event_id for call in calls] == [event.id for event in answers]
    assert len(calls) == 5


def changing(callback_context: object, llm_request: LlmRequest) -> None:
    """A callback."""


class Odd(Tool):
    """A tool that declares itself."""

    name = "odd"

    def declaration(self):  # type: ignore[no-untyped-def]
        """Nothing."""
        return

    async def run(self, args, context):  # type: ignore[no-untyped-def]
        """Nothing."""


class Changing(Odd):
    """A tool that changes requests."""

    async def process_request(self, request, context):  # type: ignore[no-untyped-def]
        """Nothing."""


class Given(Toolset):
    """No tools."""

    name = "given"

    async def tools(self, context):  # type: ignore[no-untyped-def]
        """None."""
        return []


class Planner(PlanReActPlanner):
    """A planner."""


INEXACT = {
    "a before_model_callback may have changed it": {"before_model_callback": changing},
    "an instruction is a function": {"instruction": lambda context: "Be kind."},
    "the planner Planner may have changed it": {"planner": Planner()},
    "the tool 'odd' declares itself by code of its own": {"tools": [Odd()]},
    "the tool 'odd' may have changed it": {"tools": [Changing()]},
    "the toolset 'given' says at each run which tools it has": {"tools": [Given()]},
    "an instruction names 'artifact.a', and the artifact may have changed since": {"instruction": "{artifact.a?}"},
    "an instruction names 'user:a', of which the session's log does not have all changes": {"instruction": "{user:a?}"},
    "an instruction names 'temp:a', of which the session's log does not have all changes": {"instruction": "{temp:a?}"},
}


@pytest.mark.parametrize("reason", INEXACT)
def test_what_cannot_be_rebuilt_exactly_is_left_out_with_the_reason(local: Deploy, reason: str) -> None:
    with local(LlmAgent(name="root", model=PatternModel([], default="hi"), **INEXACT[reason])) as rt:  # type: ignore[arg-type]
        run_turn(rt, "hi")
        [call] = asked(rt)
        assert (call.request, call.omitted, call.rebuilt) == (None, reason, True)


def test_what_a_budget_has_changed_is_not_rebuilt(local: Deploy) -> None:
    model = ScriptedModel([{"call": "look"}, {"call": "look"}, "done"])
    with local(LlmAgent(name="root", model=model, tools=[look])) as rt:
        run_turn(rt, "go", run_config=RunConfig(budget=Budget(llm_calls=2, at_limit="wrap_up")))
        assert [call.omitted for call in asked(rt)] == ["", "", "a budget that was used up has changed it"]


def look() -> str:
    """Look."""
    return "seen"


def tree(*names: str) -> LlmAgent:
    model = PatternModel([("first", {"transfer": names[0]})] if names else [], default="hi")
    below = [LlmAgent(name=name, description="Helps.", model=PatternModel([], default="hi")) for name in names]
    return LlmAgent(name="root", model=model, sub_agents=below)


def test_turns_of_an_earlier_deployment_are_rebuilt_if_that_had_the_same_tree(local: Deploy) -> None:
    with local(tree("first")) as rt:
        run_turn(rt, "first")
        calls = asked(rt)
        assert {call.omitted for call in calls} == {""}
    with local(tree("first")) as rt:
        assert asked(rt) == calls
    with local(tree()) as rt:
        [reason] = reasons(rt)
        assert reason.startswith("the tree with which it began, version ")
    # With more of them the model would be given a tool to find one.
    with local(tree("first"), settings=Settings(max_listed_targets=1)) as rt:
        [reason] = reasons(rt)
        assert reason.startswith("the tree with which it began, version ")


def test_of_a_turn_that_goes_on_by_another_tree_only_the_rest_is_rebuilt(local: Deploy) -> None:
    def waiting(says: str) -> LlmAgent:
        model = PatternModel([("tool:ask", "done"), ("", {"call": "ask"})])
        return LlmAgent(name="root", instruction=says, model=model, tools=[LongRunningFunctionTool(ask)])

    with local(waiting("Be brief.")) as rt:
        run_turn(rt, "go")
        [call] = asked(rt)
    with local(waiting("Be kind.")) as rt:
        run_turn(rt, answer(rt, "root"))
        [turn] = rt.turns.list()
        assert (turn.first_seq, turn.version_seq) == (1, call.seq)
        before, after = asked(rt)
        assert before.request is None
        assert before.omitted == "the turn ran on another tree then, and went on with the one that the deployment had later"
        assert after.request is not None
        assert "Be kind." in after.request.system_instruction
    # And so it stays, for the record of the turn says it.
    with local(waiting("Be kind.")) as rt:
        assert asked(rt) == [before, after]


def ask() -> None:
    """Ask a human."""


def test_a_turn_of_an_earlier_release_has_no_version_and_is_not_rebuilt(local: Deploy) -> None:
    with local(tree()) as rt:
        run_turn(rt, "hi")
    with closing(sqlite3.connect(local.folder / "sessions.db")) as connection:
        connection.execute("UPDATE raygrove_turns SET version = ''")
        connection.commit()
    with local(tree()) as rt:
        assert reasons(rt) == {"the store does not say with which tree the turn began"}


def test_state_that_a_branch_beside_may_have_changed_is_not_guessed(local: Deploy) -> None:
    call = {"call": "look_up", "args": {"order": "42"}}
    left = LlmAgent(name="left", model=PatternModel([("tool:", "done"), ("", call)]), tools=[look_up], instruction="{looked?}")
    right = LlmAgent(name="right", model=ScriptedModel(["done"]), instruction="{looked?}")
    with local(SequentialAgent(name="all", sub_agents=[ParallelAgent(name="both", sub_agents=[left, right])])) as rt:
        run_turn(rt, "go")
        omitted = {call.agent: call.omitted for call in asked(rt) if call.request is None}
        assert omitted in ({}, {"right": "another branch changed 'looked' of the state meanwhile"})


def test_only_requests_that_are_asked_for_are_read_again(local: Deploy) -> None:
    chance = random.Random(3)
    model = ScriptedModel(["answer"] * 60)
    with local(LlmAgent(name="root", model=model)) as rt:
        for number in range(60):
            run_turn(rt, f"message {number}", invocation_id=f"e-{number}")
        for number in chance.sample(range(60), 10):
            [call] = rt.turns.requests("ada", "s1", f"e-{number}")
            assert encode(call.request) == encode(model.requests[number])
