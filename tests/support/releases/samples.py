"""One of everything that a release of raygrove pickles and another one may load. Older releases run this file, too."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
from ray import cloudpickle

from actors import (
    START,
    AgentTool,
    BaseAgent,
    Budget,
    BuiltInCodeExecutor,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventsCompactionConfig,
    Example,
    ExampleTool,
    Flow,
    FlowAgent,
    GenerateContentConfig,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    LoopAgent,
    MaxLLMCalls,
    ModelLimits,
    NodeContext,
    ParallelAgent,
    Placement,
    PlanReActPlanner,
    Plugin,
    PreloadMemoryTool,
    ReadonlyContext,
    Reminders,
    RetryConfig,
    SequentialAgent,
    Supervision,
    Task,
    Tool,
    ToolContext,
    Toolset,
    create_tasks,
    exit_loop,
    google_search,
    load_artifacts,
    load_memory,
    node,
    tool,
)
from actors.definitions.tree import AgentTree
from actors.interfaces.deployment_events import DeploymentEvent
from actors.interfaces.model import Model
from actors.messages.protocol.any_message import AnyMessage
from actors.testing import PatternModel, ScriptedModel
from runtime.cluster.deployment_info import DeploymentInfo
from runtime.cluster.logs.hub import LogPage
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.packing.versions import PackedVersion, pack_version
from runtime.cluster.transport.wires import WireOptions
from runtime.observability.logs.options import log_options
from runtime.settings import Settings
from runtime.transport.endpoint import Endpoint


def look_up(number: int, tool_context: ToolContext) -> dict[str, int]:
    """Look a bill up."""
    return {"number": number}


@tool(require_confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


@tool(long_running=True)
def ask_manager() -> None:
    """Ask the manager."""


class Look(Toolset):
    """Tools that are told at run time."""

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tool."""
        return [pay]


class Counting(Plugin):
    """A plugin with an attribute."""

    def __init__(self) -> None:
        self.name = "counting"


async def note(context: CallbackContext) -> None:
    """A callback."""


def read(node_input: str) -> str:
    """A node."""
    return node_input


@node(retry_config=RetryConfig(max_attempts=3), timeout=20)
async def fetch(node_input: str) -> str:
    """A node that is tried again."""
    return node_input


def finish(ctx: NodeContext, node_input: Any) -> str:
    """The last node."""
    return str(node_input)


class Own(CustomAgent):
    """An agent of a program's own class."""

    async def run(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        """Say who it is."""
        yield Event(author=self.name)


def tree() -> AgentTree:
    """A tree with agents, tools and models of all kinds."""
    says = PatternModel([("go", {"transfer": "helper"})], default="ok")
    asked = LlmAgent(
        name="asked", description="is asked", model=ScriptedModel(["yes", {"call": "look_up", "args": {"number": 1}}])
    )
    helper = LlmAgent(
        name="helper",
        description="helps",
        model=says,
        placement=Placement(replicas=2),
        planner=PlanReActPlanner(),
        generate_content_config=GenerateContentConfig(temperature=0.5),
        before_agent_callback=note,
        output_key="said",
    )
    worker = LlmAgent(name="worker", model="gemini-2.5-flash", tools=[exit_loop, google_search], instruction="{topic?}")
    coder = LlmAgent(name="coder", model=says, code_executor=BuiltInCodeExecutor(), output_schema=dict[str, int])
    sides = (LlmAgent(name="left", model=says), LlmAgent(name="right", model=says, disallow_transfer_to_peers=True))
    nodes = Graph(name="nodes", edges=[(START, read, fetch, sides, JoinNode("both"), finish)])
    write = Task("Write", name="write", result_type=int, agents=["worker"], tools=[look_up])
    flow = Flow(
        name="plan", tasks=[write, Task("Check", name="check", depends_on=[write])], until=MaxLLMCalls(9), agents=["worker"]
    )
    tools: list[Any] = [look_up, pay, ask_manager, AgentTool(asked), Look(), load_memory, load_artifacts, PreloadMemoryTool()]
    tools += [Reminders(), create_tasks, ExampleTool([Example(input=Content.of_text("hi"), output=[])])]
    below: list[BaseAgent] = [
        helper,
        LoopAgent(name="loop", sub_agents=[worker], max_iterations=3, supervision=Supervision()),
        SequentialAgent(name="sequence", sub_agents=[ParallelAgent(name="parallel", sub_agents=[coder, Own(name="own")])]),
        nodes,
        FlowAgent(flow),
    ]
    root = LlmAgent(name="root", model=says, tools=tools, sub_agents=below, global_instruction="Be kind.", instruction=read)
    compaction = EventsCompactionConfig(compaction_interval=5, overlap_size=1)
    return AgentTree(root, [Counting()], compaction=compaction)


def _as_it_is(model: str | Model) -> str | Model:
    return model


def samples() -> Mapping[str, object]:
    """One of each, by its name."""
    settings = Settings(daily_budget=Budget(tokens=9), model_limits={"gemini-*": ModelLimits(requests_per_minute=3)})
    found = {
        "version": pack_version(tree(), _as_it_is),
        "info": DeploymentInfo(
            settings, "file:///artifacts", True, log_options("app", settings), WireOptions("direct", b"secret")
        ),
        "log page": LogPage("hub", [b""], 1),
        "event": DeploymentEvent(at_s=1.0, kind="process lost", text="gone"),
        "endpoint": Endpoint("node", "/socket", "127.0.0.1", 1, b"boot"),
    }
    with suppress(ImportError):
        # Some releases have none.
        found["standing"] = import_module("runtime.cluster.transport.pair").Standing(True, 1, found["endpoint"])
    return found


def unpacked(version: PackedVersion) -> dict[str, object]:
    """What the processes of a version's agents load, by agent; and its plugins and flows."""
    loaded: dict[str, object] = {agent: unpack(packed) for agent, packed in version.tree.definitions.items()}
    loaded["its plugins"] = cloudpickle.loads(version.plugins)
    return loaded | {f"flow {flow}": cloudpickle.loads(plan) for flow, plan in version.plans.items()}


class Form(NamedTuple):
    """How a struct is encoded.

    Attributes:
        is_list: by position.
        tag: that tells it from others; "" without one.
        fields: names as they are encoded, in order, and whether they have to be there.
    """

    is_list: bool
    tag: str
    fields: dict[str, bool]


def forms() -> dict[str, Form]:
    """The forms of all messages and of what they consist of, by class."""
    found: dict[str, Form] = {}
    for kind in _structs(AnyMessage, set()):
        config = kind.__struct_config__
        fields = {field.encode_name: field.required for field in msgspec.structs.fields(kind)}
        found[kind.__qualname__] = Form(bool(config.array_like), str(config.tag or ""), fields)
    return found


def _structs(kind: Any, seen: set[Any]) -> Iterator[type[msgspec.Struct]]:
    try:
        if kind in seen:
            return
        seen.add(kind)
    except TypeError:
        # A Literal of something without a hash.
        return
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from _structs(field.type, seen)
    for part in (*get_args(kind), getattr(kind, "__value__", None)):
        yield from _structs(part, seen)


def _pickled(each: object) -> bytes:
    raw: bytes = cloudpickle.dumps(each)  # type: ignore[no-untyped-call]
    return raw


def write(folder: Path) -> None:
    """Write the samples of this release into a folder: `pickled`, and the forms of its messages, `encoded.json`."""
    folder.joinpath("pickled").write_bytes(pickle.dumps({name: _pickled(each) for name, each in samples().items()}))
    told = {name: form._asdict() for name, form in sorted(forms().items())}
    folder.joinpath("encoded.json").write_text(json.dumps(told, indent=1) + "\n")
