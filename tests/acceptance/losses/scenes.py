"""Workflows whose children pause, escalate, fail and begin again, and what each branch of their logs should say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from actors import (
    START,
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    Flow,
    FlowAgent,
    FunctionCall,
    Graph,
    JoinNode,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    Model,
    Part,
    RetryConfig,
    Task,
    ToolContext,
    exit_loop,
    node,
)
from actors.testing import PatternModel
from tests.acceptance.losses.trees import ask, calls, count
from tests.support.agents.failing_agents import SKIP, FailingCallback, restart
from tests.support.agents.workflow_agents import count_begun, loop, par, seq

FAILS = ValueError
SOON = RetryConfig(max_attempts=2, initial_delay=1)


class Watched:
    """A model, each of whose calls is noted in `happened`."""

    def __init__(self, model: Model, happened: list[tuple[str, str]]) -> None:
        self._model = model
        self._happened = happened

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the responses of the other model."""
        self._happened.append(("asked", request.agent))
        async for response in self._model.generate(request, stream=stream):
            yield response


class _OneCall:
    """Another model, which says so when it is shown more than one call."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the responses of the other model."""
        if sum(1 for content in request.contents for _ in content.function_calls()) > 1:
            yield LlmResponse(content=Content.of_text("I see the attempt before", role="model"))
            return
        async for response in self._model.generate(request, stream=stream):
            yield response


class WorkingModel:
    """Works on tasks, by the request alone: it asks the user once where it can, then ends what it can."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Call the next tool, or say that all is done."""
        tools = [tool.name for tool in request.tools]
        made = {call.name for content in request.contents for call in content.function_calls()}
        args: dict[str, object] = {"result": f"found by {request.agent}"}
        if "ask_user" in tools and "ask_user" not in made:
            call = FunctionCall(name="ask_user", args={"question": "Which?"})
        elif finishes := [name for name in tools if name.startswith("succeed_")]:
            call = FunctionCall(name=finishes[0], args=args)
        elif "end_turn" in tools:
            call = FunctionCall(name="end_turn", args={})
        else:
            yield LlmResponse(content=Content.of_text(f"{request.agent} is done", role="model"))
            return
        yield LlmResponse(content=Content(role="model", parts=[Part(text=f"by {request.agent}"), Part(function_call=call)]))


class Agents:
    """Makes the agents of a tree. Their models have no state: the same request gets the same response."""

    def __init__(self, happened: list[tuple[str, str]]) -> None:
        self._happened = happened

    def talker(self, name: str, *replies: tuple[str, Any], **fields: Any) -> LlmAgent:
        """An agent that says what its replies have."""
        return LlmAgent(name=name, model=Watched(PatternModel([*replies, (".*", f"{name} is done")]), self._happened), **fields)

    def worker(self, name: str, **fields: Any) -> LlmAgent:
        """An agent that counts in the state, and then answers."""
        call = {"call": "count", "args": {"key": name}}
        return self.talker(name, ("tool:", f"{name} has counted"), (".*", call), tools=[count], **fields)

    def asker(self, name: str, **fields: Any) -> LlmAgent:
        """An agent that asks a person."""
        call = {"call": "ask"}
        return self.talker(name, ("tool:", f"{name} has heard"), (".*", call), tools=[LongRunningFunctionTool(ask)], **fields)

    def leaver(self, name: str) -> LlmAgent:
        """An agent that escalates."""
        return self.talker(name, (".*", {"call": "exit_loop"}), tools=[exit_loop])

    def leaving_asker(self, name: str) -> LlmAgent:
        """An agent that escalates, and asks a person."""
        replies = [("tool:ask", f"{name} has heard"), ("tool:", {"call": "ask"}), (".*", {"call": "leave"})]
        return self.talker(name, *replies, tools=[leave, LongRunningFunctionTool(ask)])

    def asking_leaver(self, name: str, to: LlmAgent) -> LlmAgent:
        """An agent that asks a person, and hands over in the same response."""
        replies = [("tool:ask", f"{name} has heard"), (".*", {"parts": [{"call": "ask"}, {"transfer": to.name}]})]
        return self.talker(name, *replies, tools=[LongRunningFunctionTool(ask)], sub_agents=[to])

    def failing(self, name: str) -> LlmAgent:
        """An agent whose model fails."""
        return self.talker(name, (".*", FAILS))

    def failing_once(self, name: str) -> LlmAgent:
        """An agent that fails in its first run."""
        fails = FailingCallback(1, after_tool=False)
        return self.talker(name, before_agent_callback=count_begun, before_model_callback=fails)

    def failing_asker(self, name: str) -> LlmAgent:
        """An agent that fails in its first run, and asks a person in the next."""
        fails = FailingCallback(1, after_tool=False)
        return self.asker(name, before_agent_callback=count_begun, before_model_callback=fails)

    def failing_attempt(self, name: str) -> LlmAgent:
        """An agent whose model fails after its first call of a tool, and must not see that in the next attempt."""
        replies: list[tuple[str, Any]] = [
            (f"tool:.*{name} 1", FAILS),
            ("tool:", f"{name} has counted"),
            (".*", {"call": "count", "args": {"key": name}}),
        ]
        return LlmAgent(name=name, model=Watched(_OneCall(PatternModel(replies)), self._happened), tools=[count])

    def planner(self, name: str) -> LlmAgent:
        """An agent that works on a task with the user."""
        finish = {"call": "finish_task", "args": {"result": "Rome"}}
        return self.talker(name, ("more", finish), (".*", "Where to?"), mode="task")

    def digger(self, name: str) -> LlmAgent:
        """An agent that works on tasks, and asks a person where it may."""
        return LlmAgent(name=name, model=Watched(WorkingModel(), self._happened))


def leave(tool_context: ToolContext) -> str:
    """Escalate, and go on."""
    tool_context.actions.escalate = True
    return "left"


def tells(callback_context: CallbackContext) -> str:
    """Say what has been counted."""
    counted = {key: value for key, value in callback_context.state.to_dict().items() if len(key) == 1}
    return " ".join(f"{key}={counted[key]}" for key in sorted(counted))


TELLS: dict[str, Any] = {"after_agent_callback": tells}


def boss(make: Agents, *delegates: LlmAgent) -> LlmAgent:
    made = calls(*(each.name for each in delegates))
    return make.talker("boss", ("tool:", "boss has heard"), (".*", made), sub_agents=delegates)


def asking(make: Agents, agent: BaseAgent) -> LlmAgent:
    return make.talker("root", ("tool:", "root has asked"), (".*", calls(agent.name)), tools=[AgentTool(agent)])


def graph(*nodes: Any) -> Graph:
    return Graph(name="graph", edges=[(START, *nodes)])


def tasks(*agents: Any) -> Flow:
    """Two agents ask a person, and a third one works when both have heard."""
    both = [Task(f"Ask for {name}.", name=name, agents=[name], interactive=True) for name in ("h", "g")]
    last = Task("Both.", name="last", agents=["x"], depends_on=["h", "g"])
    return Flow([*both, last], agents=agents or ["h", "g", "x"], name="f")


def workers(make: Agents) -> list[LlmAgent]:
    return [make.digger(name) for name in ("h", "g", "x")]


Then = Sequence[tuple[str, ...] | str | Flow]
"""What comes after the first message: agents whose calls are answered, a text, or a flow."""

SCENES: dict[str, tuple[Callable[[Agents], BaseAgent], Then]] = {
    "sequence, pause": (lambda make: seq("s", make.worker("a"), make.asker("h"), make.worker("b"), **TELLS), [("h",)]),
    "sequence, skip": (
        lambda make: seq("s", make.worker("a"), make.failing("f"), make.asker("h"), supervision=SKIP, **TELLS),
        [("h",)],
    ),
    "sequence, restart": (
        lambda make: seq("s", make.worker("a"), make.failing_once("f"), make.asker("h"), supervision=restart(1)),
        [("h",)],
    ),
    "sequence, transfer": (
        lambda make: seq(
            "s", make.talker("t", (".*", {"transfer": "x"}), sub_agents=[make.worker("x")]), make.worker("b"), **TELLS
        ),
        [],
    ),
    "transfer beside a pause": (lambda make: make.asking_leaver("t", make.worker("x")), [("t",)]),
    "sequence, transfer beside a pause": (
        lambda make: seq("s", make.asking_leaver("t", make.worker("x")), make.worker("b"), **TELLS),
        [("t",)],
    ),
    "loop, escalates beside a pause": (
        lambda make: loop("l", par("p", make.leaver("e"), make.asker("h")), make.worker("b"), times=2),
        [("h",)],
    ),
    "loop, escalates before a pause": (
        lambda make: loop("l", seq("s", make.leaver("e"), make.asker("h")), make.worker("b"), times=2),
        [("h",)],
    ),
    "loop, escalates in the run that pauses": (
        lambda make: loop("l", make.leaving_asker("h"), make.worker("b"), times=2),
        [("h",)],
    ),
    "loop, escalates in a run beside another that pauses": (
        lambda make: loop("l", par("p", make.leaving_asker("h"), make.asker("g")), make.worker("b"), times=2),
        [("h",), ("g",)],
    ),
    "loop, absorbed": (
        lambda make: loop(
            "o", loop("l", make.worker("a"), make.leaver("e"), times=3, absorb=True), make.worker("b"), times=2, **TELLS
        ),
        [],
    ),
    "loop, absorbed with a pause": (
        lambda make: loop("o", loop("l", make.leaving_asker("h"), times=3, absorb=True), make.worker("b"), times=2),
        [("h",), ("h",)],
    ),
    "loop, skip before a pause": (
        lambda make: loop("l", make.failing_asker("h"), make.worker("b"), times=2, supervision=SKIP),
        [("h",)],
    ),
    "loop, skip": (lambda make: loop("l", make.failing("f"), make.worker("b"), times=2, supervision=SKIP, **TELLS), []),
    "loop, pause": (lambda make: loop("l", make.worker("a"), make.asker("h"), times=2, **TELLS), [("h",), ("h",)]),
    "parallel, skip beside a pause": (
        lambda make: par("p", make.failing("f"), make.asker("h"), make.worker("x"), supervision=SKIP, **TELLS),
        [("h",)],
    ),
    "parallel, skip": (
        lambda make: seq("s", par("p", make.failing("f"), make.worker("x"), supervision=SKIP), make.worker("b"), **TELLS),
        [],
    ),
    "parallel, restart beside a pause": (
        lambda make: par("p", make.failing_once("f"), make.asker("h"), supervision=restart(1)),
        [("h",)],
    ),
    "parallel, two pauses": (
        lambda make: seq("s", par("p", make.asker("h"), make.asker("g"), make.worker("x")), make.worker("b"), **TELLS),
        [("g",), ("h",)],
    ),
    "parallel, state": (lambda make: par("p", make.worker("a"), make.worker("b"), **TELLS), []),
    "sequence, state": (lambda make: seq("s", make.worker("a"), **TELLS), []),
    "flow, two pauses": (lambda make: FlowAgent(tasks(*workers(make))), [("g",), ("h",)]),
    "flow, both answered": (lambda make: FlowAgent(tasks(*workers(make))), [("g", "h")]),
    "flow of a turn, two pauses": (lambda make: make.talker("root", sub_agents=workers(make)), [tasks(), ("g",), ("h",)]),
    "graph, pause": (
        lambda make: graph((make.asker("h"), make.worker("x")), JoinNode("both"), make.worker("b")),
        [("h",)],
    ),
    "graph, attempts": (
        lambda make: graph(make.worker("a"), node(make.failing_attempt("r"), retry_config=SOON), make.asker("h")),
        [("h",)],
    ),
    "graph, workflow": (
        lambda make: graph(par("p", make.failing("f"), make.asker("h"), supervision=SKIP), make.worker("b")),
        [("h",)],
    ),
    "tool, skip": (
        lambda make: asking(make, seq("steps", make.failing("f"), make.worker("a"), supervision=SKIP, **TELLS)),
        [],
    ),
    "tool, escalates": (
        lambda make: loop("l", asking(make, seq("steps", make.leaver("e"), make.worker("a"))), make.worker("b"), times=2),
        [],
    ),
    "delegate, pause": (
        lambda make: seq("s", boss(make, make.asker("h", mode="single_turn"), make.worker("x", mode="single_turn")), **TELLS),
        [("h",)],
    ),
    "delegate, words": (
        lambda make: boss(make, make.planner("t"), make.worker("x", mode="single_turn")),
        ["more"],
    ),
}

SAID: dict[str, dict[str, str]] = {
    "sequence, skip": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | f: ValueError | h: ask() | user: ask=yes | h: h has heard | s: a=1"
        ),
        "decided": "s: skip f",
    },
    "sequence, restart": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | f: ValueError, f is done | h: ask() | user: ask=yes | "
            "h: h has heard"
        ),
        "decided": "s: restart f 1/1",
    },
    "transfer beside a pause": {
        "": (
            "user: go | t: ask(), transfer_to_agent(), transfer_to_agent=None | x: count(), count=x 1, x has counted | "
            "user: ask=yes | t: t has heard"
        )
    },
    "sequence, transfer beside a pause": {
        "": (
            "user: go | t: ask(), transfer_to_agent(), transfer_to_agent=None | x: count(), count=x 1, x has counted | "
            "user: ask=yes | t: t has heard | b: count(), count=b 1, b has counted | s: b=1 x=1"
        )
    },
    "loop, escalates in the run that pauses": {
        "": "user: go | h: leave(), leave=left, escalates, ask() | user: ask=yes | h: h has heard"
    },
    "loop, escalates in a run beside another that pauses": {
        "": "user: go, ask=yes, ask=yes",
        "p.h": "h: leave(), leave=left, escalates, ask(), h has heard",
        "p.g": "g: ask(), g has heard",
    },
    "loop, skip before a pause": {
        "": (
            "user: go | h: ValueError | b: count(), count=b 1, b has counted | h: ask() | user: ask=yes | h: h has heard | "
            "b: count(), count=b 2, b has counted"
        ),
        "decided": "l: skip h",
    },
    "parallel, skip beside a pause": {
        "": "user: go, ask=yes | p: x=1",
        "p.f": "f: ValueError",
        "p.h": "h: ask(), h has heard",
        "p.x": "x: count(), count=x 1, x has counted",
        "decided": "p: skip f",
    },
    "parallel, restart beside a pause": {
        "": "user: go, ask=yes",
        "p.h": "h: ask(), h has heard",
        "p.f": "f: ValueError, f is done",
        "decided": "p: restart f 1/1",
    },
    "flow, two pauses": {
        "": "user: go, ask_user=yes, ask_user=yes",
        "h": "h: by h, ask_user(), by h, succeed_h(), succeed_h=yes",
        "g": "g: by g, ask_user(), by g, succeed_g(), succeed_g=yes",
        "x": "x: by x, succeed_last(), succeed_last=yes",
        "f": "f: found by x",
    },
    "flow of a turn, two pauses": {
        "": "user: go | root: root is done | user: ask_user=yes, ask_user=yes",
        "user": "user: Complete the tasks of the flow 'f'.",
        "h": "h: by h, ask_user(), by h, succeed_h(), succeed_h=yes",
        "g": "g: by g, ask_user(), by g, succeed_g(), succeed_g=yes",
        "x": "x: by x, succeed_last(), succeed_last=yes",
        "@controller": "@controller: found by x",
    },
    "graph, pause": {
        "": (
            "user: go, ask=yes | graph: gives {'h': 'h has heard', 'x': 'x has counted'} | b: count(), count=b 1, b has counted"
        ),
        "h@1": "h: ask(), h has heard",
        "x@1": "x: count(), count=x 1, x has counted",
    },
    "graph, attempts": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | "
            "r: count(), count=r 1, ValueError, count(), count=r 2, r has counted | h: ask() | user: ask=yes | "
            "h: h has heard"
        )
    },
    "graph, workflow": {
        "": "user: go, ask=yes | b: count(), count=b 1, b has counted",
        "p.f": "f: ValueError",
        "p.h": "h: ask(), h has heard",
        "decided": "p: skip f",
    },
    "tool, skip": {
        "": "user: go | root: steps(), steps=a=1, root has asked",
        "@root:call-steps": "user: go | f: ValueError | a: count(), count=a 1, a has counted | steps: a=1",
        "decided": "steps: skip f",
    },
    "tool, escalates": {
        "": (
            "user: go | root: steps(), steps=a has counted, root has asked | b: count(), count=b 1, b has counted | "
            "root: steps(), steps=a has counted, root has asked | b: count(), count=b 2, b has counted"
        ),
        "@root:call-steps": (
            "user: go | e: exit_loop(), exit_loop=the loop ends, escalates | a: count(), count=a 1, a has counted | "
            "user: go | e: exit_loop(), exit_loop=the loop ends, escalates | a: count(), count=a 2, a has counted"
        ),
    },
    "delegate, pause": {
        "": "user: go | boss: h(), x(), x=x has counted | user: ask=yes | boss: h=h has heard, boss has heard | s: x=1",
        "h@call-h": "h: ask(), h has heard",
        "x@call-x": "x: count(), count=x 1, x has counted",
    },
    "delegate, words": {
        "": "user: go | boss: t(), x(), x=x has counted | user: more | boss: t=Rome, boss has heard",
        "t@call-t": "t: Where to?, finish_task(), finish_task=Task completed., gives {'result': 'Rome'}",
        "x@call-x": "x: count(), count=x 1, x has counted",
    },
}
"""What each branch of a scene's log says, author by author. Of the other scenes tests/acceptance/workflows tells it."""
