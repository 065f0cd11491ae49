"""Graphs of the notation, built of google-adk's classes, which the adapter makes graphs of actors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events import Event, RequestInput
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.workflow import DEFAULT_ROUTE, START, Edge, JoinNode, RetryConfig, Workflow, node
from google.genai import types
from pydantic import PrivateAttr, ValidationError

from actors import BaseAgent, LlmRequest
from actors.interfaces.model import Model
from actors.testing import ScriptedModel
from runtime.adk import from_adk
from runtime.integrations.adk.contents import adk_response, own_content
from tests.graph import build
from tests.graph.kit import AnsweringModel, Kit
from tests.graph.programs import Answers
from tests.graph.words import Counted, Spec, node_of, retry_of, type_of


class AdkKit(Kit):
    """google-adk's classes."""

    start: Any = START
    default_route: Any = DEFAULT_ROUTE

    def content(self, text: str) -> Any:
        """A text that is shown."""
        return types.Content(role="model", parts=[types.Part(text=text)])

    def event(self, *, text: str | None = None, **fields: Any) -> Any:
        """An event that a node yields."""
        actions = EventActions(escalate=fields.pop("escalate", None), skip_summarization=fields.pop("skip", None))
        given = {name: value for name, value in fields.items() if value is not None and (name, value) != ("author", "")}
        if text is not None:
            given["content"] = self.content(text)
        return Event(actions=actions, **given)

    def request_input(self, **fields: Any) -> Any:
        """A question."""
        return RequestInput(**fields)

    def retry_config(self, **fields: Any) -> Any:
        """How often a node is tried."""
        return RetryConfig(**fields)

    def function_node(self, function: Callable[..., Any], **options: Any) -> Any:
        """A node that calls a function."""
        wait = options.pop("wait_for_output")
        made = node(function, **options)
        made.wait_for_output = wait
        return made

    def node(self, function: Any, **options: Any) -> Any:
        """A node with options."""
        return node(function, **options)

    def join(self, name: str) -> Any:
        """A node that waits for those before it."""
        return JoinNode(name=name)

    def llm(self, answers: Answers, **fields: Any) -> Any:
        """An agent with such a model, and its name."""
        return LlmAgent(name=answers.name, model=ScriptedLlm(AnsweringModel(answers)), **fields)

    def graph(self, name: str, edges: Sequence[Any], below: Sequence[Any] = ()) -> Any:
        """A graph: google-adk finds the agents that its functions run by itself."""
        return Workflow(name=name, edges=edges)


class ScriptedLlm(BaseLlm):  # type: ignore[misc]
    """Answers as a model of this project does."""

    _script: Model = PrivateAttr()

    def __init__(self, script: Model) -> None:
        super().__init__(model="scripted")
        self._script = script

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        request = LlmRequest(contents=[own_content(each) for each in llm_request.contents])
        async for response in self._script.generate(request, stream=stream):
            yield adk_response(response)


async def sub(node_input: Any) -> str:
    return f"sub({node_input})"


async def dyn_tool(x: int, tool_context: ToolContext) -> Any:
    """Runs a node."""
    return await tool_context.run_node(sub, x)


_TOOLS = {
    "dyn_tool": FunctionTool(dyn_tool),
    "good": FunctionTool(build.good), "foo": FunctionTool(build.foo), "put": FunctionTool(build.put),
    "boom": FunctionTool(build.boom), "later": LongRunningFunctionTool(build.later),
    "pending": LongRunningFunctionTool(build.pending), "danger": FunctionTool(build.danger, require_confirmation=True),
}  # fmt: skip

_SCHEMAS = {"schema": "output_schema", "in": "input_schema"}


class AdkBuilt:
    """The tree of a case: see `build.Built`."""

    def __init__(self, case: Spec, folder: Path) -> None:
        self.models: dict[str, ScriptedModel] = {}
        self._script: Mapping[str, Sequence[Any]] = case.get("script", {})
        self._kit = AdkKit()
        self._counted = Counted(folder, self._kit)
        graph = case["graph"]
        made = self._agent(graph["n"], graph) if graph.get("k") == "llm" else self._graph(graph["n"], graph)
        self.root: BaseAgent = from_adk(made).root_agent

    def _graph(self, name: str, spec: Spec) -> Any:
        schemas = {"in_schema": "input_schema", "out_schema": "output_schema", "state_schema": "state_schema"}
        given = {field: type_of(spec[key]) for key, field in schemas.items() if spec.get(key) is not None}
        for key, field in (("rerun", "rerun_on_resume"), ("wait", "wait_for_output"), ("timeout", "timeout")):
            if spec.get(key) is not None:
                given[field] = spec[key]
        nodes = {each: self._node(each, found) for each, found in spec["nodes"].items()}
        edges = [build.edge_of(edge, nodes, _edge, START) for edge in spec["edges"]]
        retry = retry_of(spec, self._kit)
        return Workflow(name=name, edges=edges, max_concurrency=spec.get("max"), retry_config=retry, **given)

    def _node(self, name: str, spec: Spec) -> Any:
        if spec.get("par"):
            inner = self._node(name, {key: value for key, value in spec.items() if key not in ("par", "workers")})
            return node(inner, parallel_worker=True, max_parallel_workers=spec.get("workers"))
        match spec.get("k"):
            case "wf":
                return self._graph(name, spec)
            case "llm":
                return self._agent(name, spec)
            case "join":
                return JoinNode(name=name, input_schema=type_of(spec["in"]) if "in" in spec else None)
            case "tool":
                return _TOOLS["danger" if spec.get("confirm") else "foo"]
        kids = {each: self._node(each, given) for each, given in spec.get("kids", {}).items()}
        return node_of(name, spec, self._counted, kids)

    def _agent(self, name: str, spec: Spec) -> Any:
        given: dict[str, Any] = {"retry_config": retry_of(spec, self._kit), "timeout": spec.get("timeout")}
        fields = {"key": "output_key", "inc": "include_contents", "ins": "instruction", "desc": "description", "mode": "mode"}
        given |= {field: spec[key] for key, field in fields.items() if key in spec}
        given |= {
            field: type_of(spec[key]) for key, field in (("schema", "output_schema"), ("in", "input_schema")) if key in spec
        }
        for key in ("before", "after"):
            if key in spec:
                given[f"{key}_agent_callback"] = self._says(spec[key])
        self.models[name] = ScriptedModel(build.replies_of(name, self._script.get(name, ())))
        given["sub_agents"] = [self._agent(each, below) for each, below in spec.get("sub", {}).items()]
        tools = [self._tool(tool) for tool in spec.get("tools", ())]
        return LlmAgent(name=name, model=ScriptedLlm(self.models[name]), tools=tools, **given)

    def _tool(self, given: Any) -> Any:
        if isinstance(given, str) and given in _TOOLS:
            return _TOOLS[given]
        return self._node(given["n"], given)

    def _says(self, text: str) -> Any:
        return lambda callback_context: self._kit.content(text)


def _edge(start: Any, end: Any, route: Any) -> Edge:
    return Edge(from_node=start, to_node=end, route=route)


def refused(error: Exception) -> dict[str, Any]:
    """The result of a case that google-adk itself does not build."""
    if not isinstance(error, ValidationError):
        return {"error": type(error).__name__, "inner": type(error).__name__}
    inner = error.errors()[0].get("ctx", {}).get("error")
    return {"error": "ValidationError", "inner": type(inner).__name__ if inner is not None else "ValidationError"}
