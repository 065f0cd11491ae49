"""Tools that yield: readers see each value while the tool runs, and the model gets the last."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import Event, FunctionTool, LlmAgent, ToolContext, tool
from actors.errors import DefinitionError
from actors.testing import ScriptedModel
from tests.support.agents.conversation_tools import Gate
from tests.support.runtimes import Deploy, run_turn, stored


def agent(*tools: Any, calls: int = 1) -> LlmAgent:
    made = [FunctionTool(each) if not isinstance(each, FunctionTool) else each for each in tools]
    parts = [{"call": each.name} for each in made] * calls
    return LlmAgent(name="root", model=ScriptedModel([{"parts": parts}, "done"]), tools=made)


def progress(events: list[Event]) -> list[Any]:
    """What readers were shown while calls ran."""
    responses = [response for event in events if event.partial for response in event.function_responses()]
    assert all(response.will_continue for response in responses)
    return [response.response for response in responses]


def results(events: list[Event]) -> list[Any]:
    return [each.response for event in events if not event.partial for each in event.function_responses()]


def in_a_thread() -> Iterator[Any]:
    """Yield in a thread."""
    here = threading.current_thread()
    yield "a third"
    yield {"done": 2}
    yield Path("/the/end") if threading.current_thread() is here else "elsewhere"


async def on_the_loop() -> AsyncIterator[str]:
    """Yield on the loop."""
    yield "half"
    yield "all"


def returning() -> Generator[str, None, dict[str, int]]:
    """Yield, and return the result."""
    yield "half"
    return {"sum": 1}


def nothing() -> Iterator[str]:
    """Yield nothing."""
    yield from ()


class Called:
    """Can be called."""

    async def __call__(self) -> AsyncIterator[str]:
        yield "called"


@pytest.mark.parametrize(
    ("given", "shown", "result"),
    [
        (in_a_thread, [{"result": "a third"}, {"done": 2}, {"result": "/the/end"}], {"result": "/the/end"}),
        (on_the_loop, [{"result": "half"}, {"result": "all"}], {"result": "all"}),
        (returning, [{"result": "half"}], {"sum": 1}),
        (nothing, [], {"result": None}),
        (FunctionTool(Called(), name="called"), [{"result": "called"}], {"result": "called"}),
        (FunctionTool(functools.partial(on_the_loop), name="part"), [{"result": "half"}, {"result": "all"}], {"result": "all"}),
    ],
    ids=["thread", "loop", "returns", "nothing", "object", "partial"],
)
def test_what_a_tool_yields_is_shown_and_the_last_value_is_its_result(
    deploy: Deploy, given: Any, shown: list[Any], result: Any
) -> None:
    with deploy(agent(given)) as rt:
        events = run_turn(rt, "go")
        assert (progress(events), results(events), events[-1].text) == (shown, [result], "done")
        assert [event for event in stored(rt) if event.partial] == []


def test_readers_see_a_value_while_the_tool_runs(deploy: Deploy, gate: Gate) -> None:
    def wait() -> Iterator[str]:
        """Wait for a reader."""
        yield "before"
        yield gate.wait()

    with deploy(agent(wait)) as rt:
        turn = iter(rt.run(user_id="ada", session_id="s1", message="go"))
        while not progress([next(turn)]):
            pass
        gate.open()
        assert results(list(turn)) == [{"result": "open"}]


def test_a_tool_that_does_not_yield_reports_by_its_context(deploy: Deploy) -> None:
    @tool
    async def count(tool_context: ToolContext) -> str:
        """Count."""
        await tool_context.report_progress({"n": range(2)})
        await tool_context.report_progress("x" * 100_000)
        return "counted"

    with deploy(agent(count)) as rt:
        first, second = progress(run_turn(rt, "go"))
    assert first == {"n": [0, 1]}
    assert "characters are left out" in second["result"]


def test_two_calls_that_yield_show_both(local: Deploy) -> None:
    with local(agent(on_the_loop, in_a_thread)) as rt:
        events = run_turn(rt, "go")
    assert len(progress(events)) == 5
    assert results(events) == [{"result": "all"}, {"result": "/the/end"}]


def test_what_a_generator_raises_is_told_to_the_model(local: Deploy) -> None:
    def fail() -> Iterator[str]:
        """Fail."""
        yield "begun"
        raise ValueError("kaput")

    with local(agent(fail)) as rt:
        events = run_turn(rt, "go")
    assert (progress(events), results(events)) == ([{"result": "begun"}], [{"error": "ValueError: kaput"}])


def test_a_sync_function_may_return_a_coroutine(local: Deploy) -> None:
    async def later() -> str:
        return "later"

    def begin() -> Awaitable[str]:
        """Begin."""
        return later()

    with local(agent(begin)) as rt:
        assert results(run_turn(rt, "go")) == [{"result": "later"}]


def test_a_tool_that_runs_in_a_task_of_its_own_cannot_yield() -> None:
    with pytest.raises(DefinitionError, match="'nothing' runs in a task of its own: it cannot yield"):
        FunctionTool(nothing, needs={"num_cpus": 1})
