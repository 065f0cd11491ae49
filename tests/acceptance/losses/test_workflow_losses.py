"""Workflows whose children pause, escalate, fail and begin again, while any actor is lost: the log says what it should, and no
model is asked again for what the log has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pytest

from actors import (
    START,
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    Event,
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
from actors.messages import protocol as p
from actors.messages.event import USER, decode_event
from actors.testing import PatternModel
from tests.acceptance.losses.parts.agents import ask, count
from tests.acceptance.losses.parts.working_trees import WorkingModel
from tests.support.agents.failing_agents import SKIP, FailingCallback, decisions_in, restart
from tests.support.agents.workflow_agents import answer, count_begun, loop, par, seq
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Process, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn, stored

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


def calls(*names: str) -> Content:
    """Calls of tools that take a text; their ids stand in branches and paths."""
    made = [FunctionCall(id=f"c-{name}", name=name, args={"request": "go"}) for name in names]
    return Content(role="model", parts=[Part(function_call=call) for call in made])


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
    "sequence, pause": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | h: ask() | user: ask=yes | h: h has heard | "
            "b: count(), count=b 1, b has counted | s: a=1 b=1"
        )
    },
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
    "sequence, transfer": {
        "": (
            "user: go | t: transfer_to_agent(), transfer_to_agent=None | x: count(), count=x 1, x has counted | "
            "b: count(), count=b 1, b has counted | s: b=1 x=1"
        )
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
    "loop, escalates beside a pause": {
        "": "user: go, ask=yes",
        "p.h": "h: ask(), h has heard",
        "p.e": "e: exit_loop(), exit_loop=the loop ends, escalates",
    },
    "loop, escalates before a pause": {
        "": "user: go | e: exit_loop(), exit_loop=the loop ends, escalates | h: ask() | user: ask=yes | h: h has heard"
    },
    "loop, escalates in the run that pauses": {
        "": "user: go | h: leave(), leave=left, escalates, ask() | user: ask=yes | h: h has heard"
    },
    "loop, escalates in a run beside another that pauses": {
        "": "user: go, ask=yes, ask=yes",
        "p.h": "h: leave(), leave=left, escalates, ask(), h has heard",
        "p.g": "g: ask(), g has heard",
    },
    "loop, absorbed": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | e: exit_loop(), exit_loop=the loop ends, escalates | "
            "b: count(), count=b 1, b has counted | a: count(), count=a 2, a has counted | "
            "e: exit_loop(), exit_loop=the loop ends, escalates | b: count(), count=b 2, b has counted | o: a=2 b=2"
        )
    },
    "loop, absorbed with a pause": {
        "": (
            "user: go | h: leave(), leave=left, escalates, ask() | user: ask=yes | h: h has heard | "
            "b: count(), count=b 1, b has counted | h: leave(), leave=left, escalates, ask() | user: ask=yes | h: h has heard | "
            "b: count(), count=b 2, b has counted"
        )
    },
    "loop, skip before a pause": {
        "": (
            "user: go | h: ValueError | b: count(), count=b 1, b has counted | h: ask() | user: ask=yes | h: h has heard | "
            "b: count(), count=b 2, b has counted"
        ),
        "decided": "l: skip h",
    },
    "loop, skip": {
        "": (
            "user: go | f: ValueError | b: count(), count=b 1, b has counted | f: ValueError | "
            "b: count(), count=b 2, b has counted | l: b=2"
        ),
        "decided": "l: skip f, skip f",
    },
    "loop, pause": {
        "": (
            "user: go | a: count(), count=a 1, a has counted | h: ask() | user: ask=yes | h: h has heard | "
            "a: count(), count=a 2, a has counted | h: ask() | user: ask=yes | h: h has heard | l: a=2"
        )
    },
    "parallel, skip beside a pause": {
        "": "user: go, ask=yes | p: x=1",
        "p.f": "f: ValueError",
        "p.h": "h: ask(), h has heard",
        "p.x": "x: count(), count=x 1, x has counted",
        "decided": "p: skip f",
    },
    "parallel, skip": {
        "": "user: go | b: count(), count=b 1, b has counted | s: b=1 x=1",
        "p.f": "f: ValueError",
        "p.x": "x: count(), count=x 1, x has counted",
        "decided": "p: skip f",
    },
    "parallel, restart beside a pause": {
        "": "user: go, ask=yes",
        "p.h": "h: ask(), h has heard",
        "p.f": "f: ValueError, f is done",
        "decided": "p: restart f 1/1",
    },
    "parallel, two pauses": {
        "": "user: go, ask=yes, ask=yes | b: count(), count=b 1, b has counted | s: b=1 x=1",
        "p.h": "h: ask(), h has heard",
        "p.g": "g: ask(), g has heard",
        "p.x": "x: count(), count=x 1, x has counted",
    },
    "parallel, state": {
        "": "user: go | p: a=1 b=1",
        "p.a": "a: count(), count=a 1, a has counted",
        "p.b": "b: count(), count=b 1, b has counted",
    },
    "sequence, state": {"": "user: go | a: count(), count=a 1, a has counted | s: a=1"},
    "flow, two pauses": {
        "": "user: go, ask_user=yes, ask_user=yes",
        "h": "h: by h, ask_user(), by h, succeed_h(), succeed_h=yes",
        "g": "g: by g, ask_user(), by g, succeed_g(), succeed_g=yes",
        "x": "x: by x, succeed_last(), succeed_last=yes",
        "f": "f: found by x",
    },
    "flow, both answered": {
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
        "@root:c-steps": "user: go | f: ValueError | a: count(), count=a 1, a has counted | steps: a=1",
        "decided": "steps: skip f",
    },
    "tool, escalates": {
        "": (
            "user: go | root: steps(), steps=a has counted, root has asked | b: count(), count=b 1, b has counted | "
            "root: steps(), steps=a has counted, root has asked | b: count(), count=b 2, b has counted"
        ),
        "@root:c-steps": (
            "user: go | e: exit_loop(), exit_loop=the loop ends, escalates | a: count(), count=a 1, a has counted | "
            "user: go | e: exit_loop(), exit_loop=the loop ends, escalates | a: count(), count=a 2, a has counted"
        ),
    },
    "delegate, pause": {
        "": "user: go | boss: h(), x(), x=x has counted | user: ask=yes | boss: h=h has heard, boss has heard | s: x=1",
        "h@c-h": "h: ask(), h has heard",
        "x@c-x": "x: count(), count=x 1, x has counted",
    },
    "delegate, words": {
        "": "user: go | boss: t(), x(), x=x has counted | user: more | boss: t=Rome, boss has heard",
        "t@c-t": "t: Where to?, finish_task(), finish_task=Task completed., gives {'result': 'Rome'}",
        "x@c-x": "x: count(), count=x 1, x has counted",
    },
}
"""What each branch of a scene's log says, author by author."""


class Step(NamedTuple):
    """A place at which actors are lost: when the step of that number is stored. `who`: its sender, or the Runner with all agents.

    A step is a note of a workflow, a change of the state, or a failure.
    """

    number: int
    who: Literal["sender", "runner"]


class Played(NamedTuple):
    """What the branches of the log say, the agents whose models were asked for what the log had, the steps, and the engine."""

    said: dict[str, str]
    again: list[str]
    steps: int
    engine: LossyEngine


def played(name: str, loss: Loss | Step | None = None) -> Played:
    """All turns of a scene, with a loss."""
    tree, then = SCENES[name]
    happened: list[tuple[str, str]] = []
    steps = 0

    async def see(sender: Process, message: p.Message, handled: bool) -> None:
        nonlocal steps
        if not (handled and isinstance(message, p.Append)):
            return
        events = [decode_event(raw, 0) for raw in message.events]
        happened.extend(("stored", event.id) for event in events)
        if any(event.actions.agent_state is not None or event.actions.state_delta or event.error_code for event in events):
            steps += 1
            if isinstance(loss, Step) and loss.number == steps:
                if loss.who == "sender":
                    engine.cut(sender)
                else:
                    await engine.lose("runner")

    with quick_folder() as folder:
        rt, engine = lossy_runtime(tree(Agents(happened)), Path(folder), [loss] if isinstance(loss, Loss) else [])
        engine.meddler = see
        with rt:
            run_turn(rt, "go")
            for each in then:
                assert bool(rt.turns.list(state="paused")) != isinstance(each, Flow)
                if isinstance(each, Flow):
                    rt.run_flow(each, user_id="ada", session_id="s1").result()
                else:
                    run_turn(rt, each if isinstance(each, str) else answer(rt, *each))
            assert {turn.state for turn in rt.turns.list()} == {"finished"}
            log = stored(rt)
    return Played(said(log), asked_again(log, happened), steps, engine)


def said(log: Sequence[Event]) -> dict[str, str]:
    """What each branch says. Decisions about children that run side by side may come in any order, so these stand apart."""
    branches: dict[str, list[Sequence[str]]] = {}
    for event in log:
        if decided := decisions_in([event]):
            branches.setdefault("decided", []).append(decided[0].split(" ", 1))
        elif words := told(event):
            # The workers of a flow share a branch. Ids of calls end at random.
            branch = re.sub(r"-[0-9a-f]{10}\b", "", event.branch or (event.author if event.flow is not None else ""))
            branches.setdefault(branch, []).append((event.author, words))
    return {branch: _text(lines) for branch, lines in branches.items()}


def _text(lines: Sequence[Sequence[str]]) -> str:
    """What the authors say, one after the other."""
    by_author = groupby(lines, key=itemgetter(0))
    return " | ".join(f"{author}: {', '.join(words for _, words in each)}" for author, each in by_author)


def told(event: Event) -> str:
    """What an event says; "" of a note."""
    made = [f"{call.name}()" for call in event.function_calls()]
    results = [f"{each.name}={(each.response or {}).get('result', 'yes')}" for each in event.function_responses()]
    ends = ["escalates"] if event.actions.escalate else []
    failed = [event.error_code] if event.error_code else []
    output = [f"gives {event.output}"] if event.output is not None else []
    return ", ".join([*([event.text] if event.text else []), *made, *results, *ends, *failed, *output])


def asked_again(log: Sequence[Event], happened: Sequence[tuple[str, str]]) -> list[str]:
    """The agents whose models were asked once more when all their answers were in the log."""
    by_model = [event for event in log if event.author != USER and not any(event.function_responses())]
    answers = {event.id: event.author for event in by_model if event.content is not None or event.error_code}
    left, again = Counter(answers.values()), []
    for what, name in happened:
        if what == "stored" and name in answers:
            left[answers.pop(name)] -= 1
        elif what == "asked" and not left[name]:
            again.append(name)
    return again


@pytest.mark.parametrize("name", SCENES)
def test_each_branch_says_what_it_should_and_no_model_is_asked_again(name: str) -> None:
    found = played(name)
    assert (found.said, found.again) == (SAID[name], [])


def check(name: str, losses: Sequence[Loss | Step]) -> None:
    """Play a scene with each of these losses."""
    for loss in losses:
        found = played(name, loss)
        assert (found.said, found.again) == (SAID[name], []), (loss, found.engine.lost)
        assert found.engine.lost or isinstance(loss, Loss)


@pytest.mark.sampled(6, full=5)
@pytest.mark.parametrize("name", SCENES)
def test_so_it_is_whoever_is_lost_when_a_step_is_stored(name: str) -> None:
    steps = range(1, played(name).steps + 1)
    check(name, [Step(number, who) for number in steps for who in ("sender", "runner")])


@pytest.mark.full
@pytest.mark.sampled(full=61)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("name", SCENES)
def test_so_it_is_at_every_message(name: str, who: Victim) -> None:
    messages = played(name).engine.messages
    check(name, [Loss(at, who, before) for at in range(messages) for before in (True, False)])


def test_an_agent_that_is_asked_otherwise_after_a_loss_answers_the_new_question() -> None:
    """A callback words the question anew when the call is made again."""
    asked: list[str] = []

    def word(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["request"] = f"question {len(asked) + 1}"

    class Expert:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            asked.append(request.contents[-1].text)
            if len(asked) == 1:
                await engine.lose("agents")
            yield LlmResponse(content=Content.of_text(f"answer to {request.contents[-1].text}", role="model"))

    model = PatternModel([("tool:", "done")], default=calls("expert"))
    expert = LlmAgent(name="expert", model=Expert())
    root = LlmAgent(name="root", model=model, tools=[AgentTool(expert)], before_tool_callback=word)
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder))
        with rt:
            events = run_turn(rt, "go")
    assert asked == ["question 1", "question 2"]
    assert [response.response for event in events for response in event.function_responses()] == [
        {"result": "answer to question 2"}
    ]
