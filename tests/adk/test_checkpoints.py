"""Resumable Apps: what clients of ADK are told of how far agents are is what ADK's own Runner tells, event for event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import httpx
import pytest
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.events import Event as AdkEvent
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool, exit_loop
from google.adk.workflow import START, Workflow
from google.genai import types

from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from runtime.frontends.web.adk.checkpoints import Checkpoints
from runtime.frontends.web.adk.events import adk_events
from runtime.web import app_for
from tests.adk.programs import Scripted
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.web_server import TIMEOUT_S, serving

Told = tuple[str, str | None, Any]


class Own(BaseAgent):  # type: ignore[misc]
    """Code of a program, which tells no checkpoint."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[AdkEvent, None]:
        content = types.Content(role="model", parts=[types.Part(text=f"{self.name} says")])
        yield AdkEvent(author=self.name, invocation_id=ctx.invocation_id, branch=ctx.branch, content=content)


def says(name: str, *steps: Any, **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=Scripted(steps=steps or (f"{name} says",)), **more)


def review() -> None:
    """Ask a person."""


ASKS = LongRunningFunctionTool(review)


def asking(name: str) -> LlmAgent:
    return says(name, ("review", {}), f"{name} is told", tools=[ASKS])


def ending(name: str) -> LlmAgent:
    return says(name, ("exit_loop", {}), tools=[exit_loop])


def handing(name: str, to: BaseAgent) -> LlmAgent:
    return says(name, ("transfer_to_agent", {"agent_name": to.name}), sub_agents=[to])


def first(node_input: str) -> str:
    return "first"


def last(node_input: str) -> str:
    return "last"


def content(text: str) -> Callable[..., types.Content]:
    return lambda callback_context: types.Content(role="model", parts=[types.Part(text=text)])


TREES: dict[str, Callable[[], Any]] = {
    "an agent": lambda: says("a"),
    "an agent that asks": lambda: asking("a"),
    "a transfer": lambda: handing("a", says("b")),
    "a transfer to a sequence": lambda: handing("a", SequentialAgent(name="s", sub_agents=[says("b"), says("c")])),
    "a sequence": lambda: SequentialAgent(name="s", sub_agents=[says("a"), says("b")]),
    "a sequence that waits": lambda: SequentialAgent(name="s", sub_agents=[asking("a"), says("b")]),
    "a sequence in a sequence": lambda: SequentialAgent(
        name="s", sub_agents=[SequentialAgent(name="t", sub_agents=[says("a"), says("b")]), says("c")]
    ),
    "a transfer in a sequence": lambda: SequentialAgent(name="s", sub_agents=[handing("a", says("b")), says("c")]),
    "a transfer that waits in a sequence": lambda: SequentialAgent(name="s", sub_agents=[handing("a", asking("b")), says("c")]),
    "a loop to its last iteration": lambda: LoopAgent(name="l", max_iterations=2, sub_agents=[says("a"), says("b")]),
    "a loop that is left": lambda: LoopAgent(name="l", sub_agents=[says("a"), ending("b")]),
    "a loop in a sequence": lambda: SequentialAgent(
        name="s", sub_agents=[LoopAgent(name="l", max_iterations=1, sub_agents=[says("a")]), says("b")]
    ),
    "a loop that waits": lambda: LoopAgent(name="l", max_iterations=1, sub_agents=[asking("a"), says("b")]),
    "a parallel": lambda: ParallelAgent(name="p", sub_agents=[says("a"), says("b")]),
    "a parallel of sequences": lambda: ParallelAgent(
        name="p", sub_agents=[SequentialAgent(name="s", sub_agents=[says("a"), says("b")]), says("c")]
    ),
    "a parallel that waits": lambda: ParallelAgent(name="p", sub_agents=[asking("a"), says("b")]),
    "an agent that a callback answers for": lambda: SequentialAgent(
        name="s", sub_agents=[says("a", before_agent_callback=content("before")), says("b")]
    ),
    "an agent that a callback speaks after": lambda: SequentialAgent(
        name="s", sub_agents=[says("a", after_agent_callback=content("after")), says("b")]
    ),
    "a code of its own": lambda: SequentialAgent(name="s", sub_agents=[says("a"), Own(name="q")]),
    "a graph": lambda: Workflow(name="w", edges=[(START, first, says("a"), last)]),
    "a graph that waits": lambda: Workflow(name="w", edges=[(START, asking("a"), last)]),
    "a graph in a graph": lambda: Workflow(name="w", edges=[(START, Workflow(name="v", edges=[(START, first)]), last)]),
}


def app(tree: str) -> App:
    return App(name="test", root_agent=TREES[tree](), resumability_config=ResumabilityConfig(is_resumable=True))


def said(event: AdkEvent) -> Any:
    if event.actions.end_of_agent:
        return "ends"
    if event.actions.agent_state is not None:
        nodes = event.actions.agent_state.get("nodes")
        # Each run has other ids of calls.
        return {name: (at["status"], len(at["interrupts"])) for name, at in nodes.items()} if nodes else event.actions.agent_state
    parts = event.content.parts if event.content is not None else ()
    calls = [part.function_call or part.function_response for part in parts if not part.text]
    return event.output or [part.text for part in parts if part.text] + [call.name for call in calls]


def told(events: Sequence[AdkEvent]) -> list[Told]:
    """Who tells what, branch by branch: agents that run beside each other speak in any order."""
    seen = [(event.author, event.branch, said(event)) for event in events if event.author != "user"]
    return sorted(seen, key=lambda each: each[1] or "")


def answer_of(events: Sequence[AdkEvent]) -> types.Content | None:
    calls = [call for event in events for call in event.get_function_calls() if call.name == "review"]
    if not calls:
        return None
    given = types.FunctionResponse(id=calls[0].id, name="review", response={"result": "yes"})
    return types.Content(role="user", parts=[types.Part(function_response=given)])


def by_adk(tree: str) -> list[AdkEvent]:
    """The events of a turn, and of the answer to what it asks, as ADK's own Runner gives them."""

    async def run() -> list[AdkEvent]:
        runner = InMemoryRunner(app=app(tree))
        await runner.session_service.create_session(app_name="test", user_id="ada", session_id="s1")
        place = {"user_id": "ada", "session_id": "s1"}
        go = types.Content(role="user", parts=[types.Part(text="go")])
        events = [event async for event in runner.run_async(**place, new_message=go)]
        if (answer := answer_of(events)) is not None:
            resumed = runner.run_async(**place, new_message=answer, invocation_id=events[0].invocation_id)
            events += [event async for event in resumed]
        return events

    return asyncio.run(run())


def served(rt: Runtime) -> list[AdkEvent]:
    topology = asyncio.run(rt.aio.topology())
    assert topology.root.is_resumable
    shown = adk_events(stored(rt), for_operator=True, checkpoints=Checkpoints(topology), is_over=True)
    return [AdkEvent.model_validate(each) for each in shown]


@pytest.mark.parametrize("tree", TREES)
def test_checkpoints_are_those_of_adk(local: Deploy, tree: str) -> None:
    with local(app(tree)) as rt:
        run_turn(rt, "go")
        if (answer := answer_of(served(rt))) is not None:
            run_turn(rt, answer)
        ours = served(rt)
    assert told(ours) == told(by_adk(tree))
    assert len({event.id for event in ours}) == len(ours)


def test_a_turn_that_waits_goes_on_where_another_one_was_between(local: Deploy) -> None:
    with local(app("a sequence that waits")) as rt:
        run_turn(rt, "go")
        waiting = served(rt)
        run_turn(rt, "another one")
        run_turn(rt, answer_of(waiting))
        of_first = [event for event in served(rt) if event.invocation_id == waiting[0].invocation_id]
    assert told(of_first) == told(by_adk("a sequence that waits"))


def test_a_turn_that_fails_ends_nothing(local: Deploy) -> None:
    root = SequentialAgent(name="s", sub_agents=[says("a"), says("b", ("nowhere", {}), before_agent_callback=broken)])
    resumable = App(name="test", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=True))
    with local(resumable) as rt, pytest.raises(Exception, match="broken"):
        run_turn(rt, "go")
    with local(resumable) as rt:
        ends = [event.author for event in served(rt) if event.actions.end_of_agent]
    assert ends == ["a"]


def broken(callback_context: Any) -> None:
    raise ValueError("broken")


def test_an_app_that_is_not_resumable_has_none_and_neither_has_a_native_one(local: Deploy) -> None:
    apps: list[Any] = [
        TREES["a sequence"](),
        App(name="test", root_agent=TREES["a sequence"]()),
        from_adk(TREES["a sequence"]()),
    ]
    for given in apps:
        with local(given) as rt:
            assert not asyncio.run(rt.aio.topology()).root.is_resumable
            run_turn(rt, "go")
            shown = [AdkEvent.model_validate(each) for each in adk_events(stored(rt)[-4:], for_operator=True)]
    assert [said(event) for event in shown] == [["a says"], ["b says"]]


def test_what_from_adk_has_made_runs_as_the_app_does(local: Deploy) -> None:
    adapted: Any = from_adk(app("a sequence"))
    with local(adapted) as rt:
        run_turn(rt, "go")
        assert told(served(rt)) == told(by_adk("a sequence"))


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
@pytest.mark.parametrize("tree", ["a transfer that waits in a sequence", "a graph that waits"])
def test_clients_are_served_them_also_of_a_turn_that_an_answer_continues(local: Deploy, tree: str, path: str) -> None:
    with local(app(tree)) as rt, serving(app_for(rt)) as url, httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        assert client.post("/apps/test/users/ada/sessions/s1").status_code == 200
        asked = posted(client, path, {"role": "user", "parts": [{"text": "go"}]})
        answer = answer_of(asked)
        assert answer is not None
        resumed = posted(client, path, answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        session = client.get("/apps/test/users/ada/sessions/s1").json()
    assert told([*asked, *resumed]) == told(by_adk(tree))
    assert told([AdkEvent.model_validate(each) for each in session["events"]]) == told([*asked, *resumed])
    assert {event.custom_metadata["shift"] for event in [*asked, *resumed] if event.content} == {"late"}


def posted(client: httpx.Client, path: str, message: Any) -> list[AdkEvent]:
    """The events of a turn, as a client of ADK gets them."""
    body = {"appName": "test", "userId": "ada", "sessionId": "s1", "newMessage": message, "customMetadata": {"shift": "late"}}
    reply = client.post(path, json=body)
    if path == "/run":
        return [AdkEvent.model_validate(each) for each in reply.json()]
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    return [AdkEvent.model_validate_json(line) for line in lines]
