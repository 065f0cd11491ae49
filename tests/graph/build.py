"""Graphs of the notation, built of this project's classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors import (
    DEFAULT_ROUTE,
    START,
    BaseAgent,
    Content,
    Edge,
    FunctionCall,
    FunctionTool,
    Graph,
    JoinNode,
    LlmAgent,
    LongRunningFunctionTool,
    Part,
    ToolContext,
    node,
)
from actors.layers.graphs.definitions.nodes import TriedAgent
from actors.layers.graphs.definitions.parallel_worker import ParallelWorker
from actors.testing import ScriptedModel
from tests.graph.kit import Kit
from tests.graph.words import Counted, NotPlayable, Spec, node_of, retry_of, type_of


def good() -> str:
    """Works."""
    return "g"


def foo(x: int) -> int:
    """Adds one."""
    return x + 1


def put(key: str, value: str, tool_context: ToolContext) -> str:
    """Writes the state."""
    tool_context.state[key] = value
    return "ok"


def boom() -> str:
    """Fails."""
    raise ValueError("kaput")


def later() -> None:
    """Takes long."""


def pending() -> dict[str, str]:
    """Takes long, and says so."""
    return {"status": "pending"}


def danger(x: int) -> str:
    """Is to be confirmed."""
    return f"did {x}"


async def sub(node_input: Any) -> str:
    return f"sub({node_input})"


async def dyn_tool(x: int, tool_context: ToolContext) -> Any:
    """Runs a node."""
    return await tool_context.run_node(sub, x)


_TOOLS = {
    "dyn_tool": FunctionTool(dyn_tool),
    "good": FunctionTool(good), "foo": FunctionTool(foo), "put": FunctionTool(put), "boom": FunctionTool(boom),
    "later": LongRunningFunctionTool(later), "pending": LongRunningFunctionTool(pending),
    "danger": FunctionTool(danger, require_confirmation=True),
}  # fmt: skip

ModelOf = Callable[[str, ScriptedModel], Any]


class Built:
    """The tree of a case.

    Args:
        case: in the notation.
        folder: of the case.
        model_of: makes the model of an agent of its name and its script.

    Attributes:
        models: by agent.
        root: the root.

    Raises:
        NotPlayable: it has something that is not played yet.
        DefinitionError: it cannot be built.
    """

    def __init__(self, case: Spec, folder: Path, model_of: ModelOf = lambda _, script: script) -> None:
        self.models: dict[str, Any] = {}
        self._model_of = model_of
        self._script: Mapping[str, Sequence[Any]] = case.get("script", {})
        self._counted = Counted(folder)
        self._kids: dict[str, list[BaseAgent]] = {}
        graph = case["graph"]
        self.root: BaseAgent = self._agent(graph["n"], graph) if graph.get("k") == "llm" else self._graph(graph["n"], graph)

    def _graph(self, name: str, spec: Spec) -> Graph:
        for option in ("rerun", "wait"):
            if spec.get(option) is not None:
                raise NotPlayable(f"{option} of a workflow")
        schemas = {"in_schema": "input_schema", "out_schema": "output_schema", "state_schema": "state_schema"}
        given = {field: type_of(spec[key]) for key, field in schemas.items() if spec.get(key) is not None}
        given |= {"retry_config": retry_of(spec, Kit()), "timeout": spec.get("timeout")}
        nodes = {each: self._node(each, node) for each, node in spec["nodes"].items()}
        edges = [edge_of(edge, nodes) for edge in spec["edges"]]
        agents = [agent for each in nodes for agent in self._kids.get(each, ())]
        return Graph(name=name, edges=edges, max_concurrency=spec.get("max"), sub_agents=agents, **given)

    def _node(self, name: str, spec: Spec) -> object:
        if spec.get("par"):
            inner = self._node(name, {key: value for key, value in spec.items() if key not in ("par", "workers")})
            return node(inner, parallel_worker=True, max_parallel_workers=spec.get("workers"))
        match spec.get("k"):
            case "wf":
                return self._graph(name, spec)
            case "llm":
                return _tried(self._agent(name, spec), spec)
            case "join":
                return JoinNode(name, input_schema=type_of(spec["in"]) if "in" in spec else None)
        if spec.get("k") == "tool":
            return _TOOLS["danger" if spec.get("confirm") else "foo"]
        kids = {each: self._node(each, given) for each, given in spec.get("kids", {}).items()}
        below = [agent for each in kids for agent in self._kids.get(each, ())]
        self._kids[name] = [*below, *(agent for each in kids.values() if (agent := _agent_of(each)) is not None)]
        return node_of(name, spec, self._counted, kids)

    def _agent(self, name: str, spec: Spec) -> LlmAgent:
        given: dict[str, Any] = {}
        for key, field in (
            ("key", "output_key"),
            ("inc", "include_contents"),
            ("ins", "instruction"),
            ("desc", "description"),
            ("mode", "mode"),
        ):
            if key in spec:
                given[field] = spec[key]
        for key, field in (("schema", "output_schema"), ("in", "input_schema")):
            if key in spec:
                given[field] = type_of(spec[key])
        for key in ("before", "after"):
            if key in spec:
                given[f"{key}_agent_callback"] = _says(spec[key])
        self.models[name] = self._model_of(name, ScriptedModel(replies_of(name, self._script.get(name, ()))))
        tools = [self._tool(tool) for tool in spec.get("tools", ())]
        given["sub_agents"] = [self._agent(each, below) for each, below in spec.get("sub", {}).items()]
        return LlmAgent(name=name, model=self.models[name], tools=tools, **given)

    def _tool(self, given: str | Spec) -> object:
        if isinstance(given, str) and given in _TOOLS:
            return _TOOLS[given]
        assert isinstance(given, Mapping)
        return self._node(given["n"], given)


def _agent_of(node: object) -> BaseAgent | None:
    inner = node
    while isinstance(inner, TriedAgent | ParallelWorker):
        inner = inner.node
    return inner if isinstance(inner, BaseAgent) else None


def _tried(agent: BaseAgent, spec: Spec) -> object:
    return node(agent, retry_config=retry_of(spec, Kit()), timeout=spec.get("timeout"))


def _says(text: str) -> Any:
    return lambda callback_context: Content.of_text(text, role="model")


def edge_of(edge: Any, nodes: Mapping[str, object], make: Callable[[Any, Any, Any], object] = Edge, start: Any = START) -> object:
    """An edge of the notation: an Edge, or a chain.

    Args:
        make: makes an Edge of its ends and its route.
        start: what stands for START.
    """

    def end(given: Any) -> Any:
        if isinstance(given, list):
            return tuple(map(end, given))
        if isinstance(given, dict):
            return {DEFAULT_ROUTE if key == "default" else key: end(value) for key, value in given.items()}
        return start if given == "START" else nodes[given]

    if isinstance(edge, dict):
        return make(end(edge["from"]), end(edge["to"]), edge.get("route"))
    return tuple(map(end, edge))


def replies_of(agent: str, script: Sequence[Any]) -> list[Any]:
    replies: list[Any] = []
    calls = 0

    def part(given: Any) -> Part:
        nonlocal calls
        if isinstance(given, str):
            return Part(text=given)
        if "thought" in given:
            return Part(text=given["thought"], thought=True)
        if "to" in given:
            name, args = "transfer_to_agent", {"agent_name": given["to"]}
        elif "finish" in given:
            name, args = "finish_task", given["finish"]
        else:
            name, args = given["call"], given.get("args", {})
        calls += 1
        return Part(function_call=FunctionCall(id=f"fc-{agent}-{calls}", name=name, args=args))

    for given in script:
        if isinstance(given, dict) and "error" in given:
            replies.append(ValueError(given["error"]))
        elif isinstance(given, dict) and "stream" in given:
            replies.append({"stream": given["stream"]})
        else:
            parts = given["parts"] if isinstance(given, dict) and "parts" in given else [given]
            replies.append(Content(role="model", parts=[part(each) for each in parts]))
    return replies


def shown_part(part: Part) -> str:
    """A part as the notation shows the contents of a call."""
    if part.function_call is not None:
        return f"<call {part.function_call.name} {_json(cut(part.function_call.args))}>"
    if part.function_response is not None:
        return f"<resp {part.function_response.name} {_json(cut(part.function_response.response))}>"
    return _sorted_json(part.text or "")


def cut(value: Any, *, contents: bool = False) -> Any:
    """A value with long texts cut, as the notation shows them; `contents`: a Content by its text."""
    if isinstance(value, str):
        return f"{value[:60]}…" if len(value) > 160 else value
    if isinstance(value, list):
        return [cut(each, contents=contents) for each in value]
    if isinstance(value, Mapping):
        if contents and "parts" in value and "role" in value:
            return {"content": "".join(part.get("text", "") for part in value["parts"])}
        return {key: cut(each, contents=contents) for key, each in value.items()}
    return value


def _sorted_json(text: str) -> str:
    """The text; JSON in it with sorted keys."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return _json(json.loads(text))
    except ValueError:
        return text


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
