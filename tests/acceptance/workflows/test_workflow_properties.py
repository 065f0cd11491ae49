"""What holds of every workflow tree, every order in which tools finish, and every log. Many runs, so on the local engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors import BaseAgent, Event, FunctionTool, LlmAgent, LoopAgent, SequentialAgent, ToolContext
from actors.testing import ScriptedModel
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.tries import tries
from tests.support.vectors.vector_agents import SayingAgent, SilentAgent

RUNS = settings(max_examples=tries(60))


@st.composite
def workflows(draw: st.DrawFn, depth: int = 3, counter: list[int] | None = None) -> BaseAgent:
    """A tree of loops and sequences over agents that say up to three things, escalating with one of them, or nothing."""
    numbers = counter if counter is not None else [0]
    numbers[0] += 1
    name = f"n{numbers[0]}"
    kind = draw(st.sampled_from(["say", "say", "silent", "seq", "loop", "loop"] if depth else ["say", "silent"]))
    if kind == "silent":
        return SilentAgent(name=name)
    if kind == "say":
        texts = [f"{name}.{index}" for index in range(draw(st.integers(1, 3)))]
        return SayingAgent(name=name, say=texts, esc=draw(st.sampled_from([None, None, 0, len(texts) - 1])))
    children = [draw(workflows(depth - 1, numbers)) for _ in range(draw(st.integers(0, 3)))]
    if kind == "seq":
        return SequentialAgent(name=name, sub_agents=children)
    on_escalate: Any = draw(st.sampled_from(["propagate", "absorb"]))
    return LoopAgent(name=name, sub_agents=children, max_iterations=draw(st.integers(1, 3)), on_escalate=on_escalate)


def interpreted(agent: BaseAgent, said: list[str]) -> bool:
    """The reference: adds the texts of a run to `said`, and returns whether the run has escalated."""
    if isinstance(agent, SayingAgent):
        said += agent.say
        return agent.esc is not None
    if isinstance(agent, LoopAgent):
        for _ in range(agent.max_iterations or 0):
            for child in agent.sub_agents:
                if interpreted(child, said):
                    return agent.on_escalate == "propagate"
        return False
    escalated = [interpreted(child, said) for child in agent.sub_agents]
    return any(escalated)


@RUNS
@given(workflows())
def test_a_tree_of_loops_and_sequences_says_what_the_reference_says(root: BaseAgent) -> None:
    expected: list[str] = []
    interpreted(root, expected)
    with quick_folder() as folder, Deploy("local", Path(folder))(root) as rt:
        assert [event.text for event in run_turn(rt, "go") if event.text] == expected
        # Nothing is left of a run for the next.
        assert [event.text for event in run_turn(rt, "go") if event.text] == expected


class OrderedTools:
    """Tools `t0`, `t1`, … that finish in a given order: each waits for the one before it."""

    def __init__(self, order: list[int]) -> None:
        self._order = order
        self._done = {index: asyncio.Event() for index in order}
        self.finished: list[int] = []

    def tools(self) -> list[FunctionTool]:
        return [FunctionTool(self._tool(index), name=f"t{index}") for index in sorted(self._order)]

    def _tool(self, index: int) -> Any:
        async def run(tool_context: ToolContext) -> dict[str, int]:
            """Finish when it is its turn."""
            place = self._order.index(index)
            if place:
                await self._done[self._order[place - 1]].wait()
            tool_context.state["last"] = index
            tool_context.state[f"of{index}"] = index
            tool_context.actions.escalate = True if index == 1 else None
            tool_context.actions.skip_summarization = True if index == 0 else None
            self.finished.append(index)
            self._done[index].set()
            return {"from": index}

        return run


@RUNS
@given(st.integers(2, 5).flatmap(lambda size: st.permutations(range(size))))
def test_the_merged_response_has_the_order_of_the_calls_and_of_a_key_the_value_written_last(order: list[int]) -> None:
    tools = OrderedTools(order)
    size = len(order)
    model = ScriptedModel([{"parts": [{"call": f"t{index}"} for index in range(size)]}])
    root = LlmAgent(name="root", model=model, tools=tools.tools())
    with quick_folder() as folder, Deploy("local", Path(folder))(root) as rt:
        answered = run_turn(rt, "go")[-1]
    assert tools.finished == order
    assert [response.response for response in answered.function_responses()] == [{"from": index} for index in range(size)]
    assert answered.actions.state_delta == {"last": order[-1], **{f"of{index}": index for index in range(size)}}
    assert (answered.actions.escalate, answered.actions.skip_summarization) == (True, True)


KEYS = st.sampled_from(["a", "b", "user:a", "app:a", "temp:a"])
VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63), st.text(max_size=3), st.lists(st.booleans(), max_size=2))
DELTAS = st.dictionaries(KEYS, VALUES)


@RUNS
@given(st.lists(st.tuples(DELTAS, st.booleans()), min_size=1, max_size=8))
def test_a_log_that_is_replayed_gives_the_same_session(turns: list[tuple[dict[str, Any], bool]]) -> None:
    with quick_folder() as folder:
        deploy = Deploy("local", Path(folder))
        with deploy(SayingAgent(name="root", say=["ok"])) as rt:
            for delta, takes_back in turns:
                turn = rt.run(user_id="ada", session_id="s1", message="go", state_delta=delta)
                assert turn.result().text == "ok"
                if takes_back:
                    rt.sessions.rewind("ada", "s1", turn.invocation_id)
            before = rt.sessions.get("ada", "s1")
        with deploy(SayingAgent(name="root", say=["ok"])) as rt:
            after = rt.sessions.get("ada", "s1")
            assert after == before
            assert after is not None
            has_rewound = any(takes_back for _, takes_back in turns)
            # A rewind restores the session's own state; state of the user and the app stays as it is.
            assert _folded(stored(rt), own=has_rewound) == _there(after.state, own=has_rewound)
            assert author_texts(run_turn(rt, "go")) == [("root", "ok")]


def _folded(events: list[Event], *, own: bool) -> dict[str, Any]:
    """State, by taking in all that is seen from the first event on."""
    state: dict[str, Any] = {}
    for event in events:
        state.update(event.actions.state_delta)
    return _there(state, own=own)


def _there(state: Mapping[str, Any], *, own: bool) -> dict[str, Any]:
    """State without keys that are None, which count as taken away; with `own`, without those that other sessions share."""
    return {key: value for key, value in state.items() if value is not None and not (own and ":" in key)}
