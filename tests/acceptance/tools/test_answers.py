"""One message may answer calls of several agents: each of them goes on (semantics.md section 4, "Pauses")."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import BaseAgent, LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool
from actors.errors import AgentFailedError, InvalidMessageError
from actors.messages.protocol.runs import Paused
from actors.testing import PatternModel, responses
from tests.support.agents.workflow_agents import answer, par, run, says, seq, short
from tests.support.runtimes import Deploy, stored
from tests.support.vectors.vector_agents import lro


class Hearing:
    """A stateless model that gives one reply before it has seen the answer to its call of `lro`, and another one after it."""

    def __init__(self, before: Any, after: Any) -> None:
        self._before, self._after = before, after

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Look for the answer in the whole conversation."""
        answers = [answer.name for content in request.contents for answer in content.function_responses()]
        for response in responses(self._after if "lro" in answers else self._before, stream=stream):
            yield response


def asks(name: str, **fields: Any) -> LlmAgent:
    """Makes a long-running call, and says so when it has the answer."""
    return LlmAgent(name=name, model=Hearing({"call": "lro"}, f"{name} knows"), tools=[LongRunningFunctionTool(lro)], **fields)


def hands_over(name: str, to: BaseAgent, after: Any = None) -> LlmAgent:
    """Makes a long-running call beside a transfer, and says so when it has the answer."""
    model = Hearing({"parts": [{"call": "lro"}, {"transfer": to.name}]}, after or f"{name} knows")
    return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(lro)], sub_agents=[to])


def two() -> BaseAgent:
    return hands_over("a", asks("b"))


def below() -> BaseAgent:
    return hands_over("a", seq("s", par("p", asks("b"), asks("c")), says("d")))


def in_a_step() -> BaseAgent:
    return seq("s", hands_over("a", asks("b")), says("d"))


TREES: dict[str, tuple[Any, list[str]]] = {
    "two": (two, ["a a knows", "b b knows"]),
    "below": (below, ["a a knows", "b b knows", "c c knows", "d d"]),
    "in_a_step": (in_a_step, ["a a knows", "b b knows", "d d"]),
}


@pytest.mark.parametrize("name", TREES)
def test_all_agents_that_are_answered_go_on_in_the_order_of_the_answers(local: Deploy, name: str) -> None:
    tree, said = TREES[name]
    with local(tree()) as rt:
        assert run(rt, "go")[1] == "Paused"
        waiting = [author for author in ("a", "b", "c") if any(text.startswith(f"{author} ") for text in said)]
        events, how = run(rt, answer(rt, *waiting))
        assert (sorted(events), how) == (said, "Finished")
        assert len({event.invocation_id for event in stored(rt)}) == 1
    with local(tree()) as rt:
        run(rt, "go", "s2")
        events, how = run(rt, answer(rt, *reversed(waiting), session_id="s2"), "s2")
        assert (sorted(events), how) == (said, "Finished")
        if name == "two":
            assert events == ["b b knows", "a a knows"]


def test_the_turn_waits_on_if_one_of_them_asks_again(local: Deploy) -> None:
    first = hands_over("a", asks("b"), after={"call": "lro"})
    with local(first) as rt:
        run(rt, "go")
        turn = rt.run(user_id="ada", session_id="s1", message=answer(rt, "a", "b"))
        result = turn.result()
        assert short(result.events) == ["a call:lro !lro", "b b knows"]
        assert isinstance(result.outcome, Paused)
        assert list(result.outcome.call_ids) == list(result.events[0].long_running_tool_ids)
        events, how = run(rt, answer(rt, "a"))
        assert (events, how) == (["a call:lro !lro"], "Paused")


def test_one_that_transfers_to_the_next_lets_it_go_on_once(local: Deploy) -> None:
    with local(hands_over("a", asks("b"), {"transfer": "b"})) as rt:
        run(rt, "go")
        events, how = run(rt, answer(rt, "a", "b"))
        assert (events.count("b b knows"), events[-1], how) == (1, "b b knows", "Finished")


def test_one_that_fails_ends_the_turn(local: Deploy) -> None:
    with local(hands_over("a", asks("b"), after=ValueError("kaput"))) as rt:
        run(rt, "go")
        with pytest.raises(AgentFailedError, match="kaput"):
            run(rt, answer(rt, "a", "b"))


def test_a_message_that_answers_two_turns_is_refused_and_each_can_be_answered(local: Deploy) -> None:
    with local(
        LlmAgent(
            name="root",
            model=PatternModel([("b", {"transfer": "b"})], default={"transfer": "a"}),
            sub_agents=[asks("a", disallow_transfer_to_parent=True), asks("b", disallow_transfer_to_parent=True)],
        )
    ) as rt:
        turns = [rt.run(user_id="ada", session_id="s1", message=name) for name in ("a", "b")]
        assert [type(turn.result().outcome) for turn in turns] == [Paused, Paused]
        before = stored(rt)
        with pytest.raises(InvalidMessageError) as refused:
            run(rt, answer(rt, "a", "b"))
        assert all(turn.invocation_id in str(refused.value) for turn in turns)
        assert stored(rt) == before
        assert run(rt, answer(rt, "a")) == (["a a knows"], "Finished")
        assert run(rt, answer(rt, "b")) == (["b b knows"], "Finished")
