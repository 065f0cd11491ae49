"""Makes a tree of raygrove's agents of one of google-adk's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.agents.loop_agent import LoopAgent as AdkLoopAgent
from google.adk.agents.parallel_agent import ParallelAgent as AdkParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent as AdkSequentialAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool as AdkAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from google.adk.workflow import BaseNode, Workflow
from google.genai import types

from actors.definitions.agents import BaseAgent, Plugin
from actors.definitions.tools.base import BuiltInCodeExecutor
from actors.errors import DefinitionError
from actors.layers.agent_tool import AgentTool
from actors.layers.trees.tree import Adapted
from actors.layers.workflows.definitions import LoopAgent, ParallelAgent, SequentialAgent
from actors.messages.topology import TASK
from runtime.integrations.adk.agents import AdkAgent, AnsweringAgent, detached, with_stand_ins
from runtime.integrations.adk.apps import adk_plugin, hooks_inside, own_compaction
from runtime.integrations.adk.callbacks import (
    AfterModel,
    AgentCallback,
    BeforeModel,
    OnModelError,
    Provider,
    ToolCallback,
    own_planner,
)
from runtime.integrations.adk.contexts import Source
from runtime.integrations.adk.graphs import GraphReader, function, is_graph, lone_node
from runtime.integrations.adk.islands import Island, is_delegate, is_function, node_of, runs_model, without_counterpart
from runtime.integrations.adk.models import caching_model, own_model
from runtime.integrations.adk.tools import AdkTool, AskedAgent
from runtime.integrations.adk.toolsets import AdkToolset

_WORKFLOWS: dict[type, type[BaseAgent]] = {
    AdkSequentialAgent: SequentialAgent,
    AdkParallelAgent: ParallelAgent,
    AdkLoopAgent: LoopAgent,
}


def from_adk(agent_or_app: Any, *, app_name: str = "", islands: bool = False) -> Adapted:
    """Make a tree of actors of an agent, or an App, of google-adk. What its users wrote stays as it is.

    Args:
        agent_or_app: the root agent, or the App. It is not changed, and not needed any more.
        app_name: what ADK's contexts call the app; by default the App's name, or the root agent's.
        islands: run what has no counterpart, such as graphs of `Workflow`, inside ADK's own Runner, in one actor with all that is
            below it. `notes` names each. By default it is refused.

    Raises:
        DefinitionError: something in it would behave differently without saying so; the message names it.
    """
    is_app = isinstance(agent_or_app, App)
    root = agent_or_app.root_agent if is_app else agent_or_app
    if not isinstance(root, BaseNode):
        raise DefinitionError(
            f"{type(root).__name__} is no tree of agents: give an LlmAgent, SequentialAgent, ParallelAgent, LoopAgent or a "
            "subclass of BaseAgent of google-adk"
        )
    resumability = agent_or_app.resumability_config if is_app else None
    converter = _Converter(app_name or (agent_or_app.name if is_app else root.name), islands, resumability)
    if is_app:
        converter.check_app(agent_or_app)
    tree = converter.top(root, is_root=True)
    plugins = converter.plugins(agent_or_app.plugins, root.name) if is_app else ()
    given = agent_or_app.events_compaction_config if is_app else None
    compaction = own_compaction(given, root) if given is not None else None
    return Adapted(tree, plugins, tuple(converter.notes), compaction, bool(getattr(resumability, "is_resumable", False)))


class _Converter:
    def __init__(self, app_name: str, islands: bool, resumability: Any) -> None:
        self.notes: list[str] = []
        self._islands = islands
        self._resumability = resumability
        self._app_name = app_name
        self._island_names: list[str] = []
        self._asked: dict[tuple[int, bool], BaseAgent] = {}
        self._sources: dict[str, Source] = {}
        self._has_plugins = True
        self._cache: Any = None
        # The agents whose runs plugins do not hear of.
        self._alone: set[str] = set()

    def check_app(self, app: App) -> None:
        self._cache = app.context_cache_config
        if getattr(app, "resumability_config", None) is not None:
            self.notes.append(
                "resumability_config: every turn can be resumed; it only has clients of ADK told how far agents are"
            )

    def plugins(self, given: Sequence[BasePlugin], root: str) -> Sequence[Plugin]:
        """The plugins of an App."""
        for plugin in given:
            inside = hooks_inside(plugin) if self._island_names else []
            if inside:
                self.notes.append(
                    f"plugin {plugin.name!r}: {', '.join(inside)} not called inside {', '.join(map(repr, self._island_names))}"
                )
        return tuple(adk_plugin(plugin, self._sources, root, frozenset(self._alone)) for plugin in given)

    def top(self, agent: Any, *, is_root: bool = False) -> BaseAgent:
        """A root, or the agent of an AgentTool: above it stands no agent whose model it might take."""
        return self.agent(agent, has_model_above=False, is_node=is_root and getattr(agent, "mode", None) == TASK)

    def agent(self, agent: Any, *, has_model_above: bool, is_node: bool = False) -> BaseAgent:
        """Convert an agent with all that is below it; `is_node`: it is a node of a graph, or works for calls."""
        if is_graph(agent):
            return self._graph(agent)
        if is_lone_node(agent):
            self._source(agent)
            return lone_node(agent, self._app_name, self._node)
        if (alien := without_counterpart(agent, is_node=is_node)) is not None:
            if not self._islands:
                self._refuse(agent, alien.what, f"{alien.instead}; or Runtime(…, islands=True) has ADK's own Runner run it")
            return self._island(agent, alien.what)
        if type(agent) in _WORKFLOWS:
            return self._workflow(agent, has_model_above)
        if runs_model(agent):
            return self._llm(agent, has_model_above, is_node)
        if type(agent)._run_async_impl is AdkBaseAgent._run_async_impl:
            self._refuse(agent, f"{type(agent).__name__} has no _run_async_impl", "write one")
        return self._custom(agent, has_model_above)

    def _refuse(self, agent: Any, what: str, instead: str) -> None:
        raise DefinitionError(f"agent {agent.name!r}: {what}, which is not carried over: {instead}")

    def _island(self, agent: Any, what: str) -> BaseAgent:
        self.notes.append(f"agent {agent.name!r}: {what}, so ADK's own Runner runs it, in one actor with all that is below it")
        self._island_names.append(agent.name)
        alone, callbacks = agent, {}
        if isinstance(agent, AdkBaseAgent):
            # Deep in a tree it would look for the agents above it. Its callbacks are called once, also when its process is lost.
            left_out = ("parent_agent", "before_agent_callback", "after_agent_callback")
            alone = agent.model_copy(update=dict.fromkeys(left_out))
        # Plugins are given the agent or node.
        source = self._source(alone)
        if isinstance(agent, AdkBaseAgent):
            callbacks = self._callbacks(agent, source)
        return Island(
            **callbacks,
            name=agent.name,
            description=agent.description,
            source=alone,
            app_name=self._app_name,
            resumability=self._resumability,
        )

    def _shared(self, agent: Any, source: Source, has_model_above: bool) -> dict[str, Any]:
        return {
            "name": agent.name,
            "description": agent.description,
            "sub_agents": [
                self.agent(child, has_model_above=has_model_above, is_node=is_delegate(child)) for child in agent.sub_agents
            ],
            **self._callbacks(agent, source),
        }

    def _callbacks(self, agent: Any, source: Source) -> dict[str, Any]:
        names = ("before_agent_callback", "after_agent_callback")
        return {name: _one(AgentCallback, source, getattr(agent, name)) for name in names}

    def _source(self, agent: Any) -> Source:
        """An agent without the agents around it, for what refers to it."""
        source = self._sources[agent.name] = Source(agent, self._app_name)
        if not self._has_plugins:
            self._alone.add(agent.name)
        return source

    def _workflow(self, agent: Any, has_model_above: bool) -> BaseAgent:
        fields = self._shared(agent, self._source(detached(agent)), has_model_above)
        if isinstance(agent, AdkLoopAgent):
            fields["max_iterations"] = agent.max_iterations
        return _WORKFLOWS[type(agent)](**fields)

    def _custom(self, agent: Any, has_model_above: bool) -> BaseAgent:
        source = self._source(with_stand_ins(agent))
        return AdkAgent(source=source, **self._shared(agent, source, has_model_above))

    def _graph(self, workflow: Any) -> BaseAgent:
        # Plugins are given the agent; what is in its graph has agents and sources of its own.
        self._source(workflow.model_copy(update={"edges": [], "graph": None}))
        try:
            reader = GraphReader(workflow, self._app_name, self._node)
            return reader.graph()
        except DefinitionError as error:
            if not self._islands:
                raise
            return self._island(workflow, f"as a graph of actors it cannot run ({error})")

    def _llm(self, agent: Any, has_model_above: bool, is_node: bool) -> BaseAgent:
        source = self._source(detached(agent))
        # Its delegates are among its tools already; raygrove's agents find theirs among their children.
        tools = [self._tool(source, tool) for tool in agent.tools if not _is_child(agent, getattr(tool, "agent", None))]
        return AnsweringAgent(
            **self._shared(agent, source, True),
            model=self._model(agent, has_model_above),
            instruction=_instruction(source, agent.instruction),
            global_instruction=_instruction(source, agent.global_instruction),
            static_instruction=self._static(agent),
            planner=own_planner(source, agent.planner),
            code_executor=BuiltInCodeExecutor() if agent.code_executor is not None else None,
            tools=tools,
            disallow_transfer_to_parent=agent.disallow_transfer_to_parent,
            disallow_transfer_to_peers=agent.disallow_transfer_to_peers,
            **({"mode": agent.mode} if is_node else {}),
            **_shown_contents(agent, is_node),
            output_key=agent.output_key or None,
            output_schema=agent.output_schema,
            input_schema=agent.input_schema,
            generate_content_config=_config(agent),
            before_model_callback=_one(BeforeModel, source, agent.before_model_callback),
            after_model_callback=_one(AfterModel, source, agent.after_model_callback),
            on_model_error_callback=_one(OnModelError, source, agent.on_model_error_callback),
            before_tool_callback=_one(ToolCallback, source, agent.before_tool_callback),
            after_tool_callback=_one(ToolCallback, source, agent.after_tool_callback, last="tool_response"),
            on_tool_error_callback=_one(ToolCallback, source, agent.on_tool_error_callback, last="error"),
        )

    def _model(self, agent: Any, has_model_above: bool) -> Any:
        given = agent.model or ("" if has_model_above else agent.canonical_model.model)
        if self._cache is None:
            return own_model(given, agent.output_schema)
        model, uncached = caching_model(given, agent.output_schema, self._cache)
        if uncached:
            self.notes.append(f"agent {agent.name!r}: {uncached!r} is not cached by context_cache_config, which is for Gemini")
        return model

    def _static(self, agent: Any) -> str:
        given = agent.static_instruction
        if given is None or isinstance(given, str):
            return given or ""
        parts = given.parts if isinstance(given, types.Content) else given if isinstance(given, list) else [given]
        texts = [part if isinstance(part, str) else getattr(part, "text", None) for part in parts or ()]
        if None in texts:
            self._refuse(agent, "static_instruction with files", "give a text")
        return "\n\n".join(text for text in texts if text)

    def _tool(self, source: Source, tool: Any) -> Any:
        if isinstance(tool, AdkAgentTool):
            return self._agent_tool(tool)
        if is_graph(node := node_of(tool)):
            return self._graph(_named(node, tool))
        if is_function(node):
            return function(_named(node, tool), tool.description, self._app_name, self._node)
        if isinstance(tool, BaseToolset):
            return AdkToolset(source, tool, _toolset_tool)
        if isinstance(tool, BaseTool):
            return AdkTool(source, tool)
        if isinstance(tool, AdkBaseAgent):
            self._refuse(source.agent, f"agent {tool.name!r} among its tools", "give AgentTool(agent)")
        if callable(tool):
            return AdkTool(source, AdkFunctionTool(tool))
        return self._refuse(source.agent, f"{type(tool).__name__} among its tools", "give a BaseTool or a function")

    def _node(self, agent: Any) -> BaseAgent:
        return self.agent(agent, has_model_above=False, is_node=True)

    def _agent_tool(self, tool: Any) -> AgentTool:
        # One agent may be the tool of several agents, and is one actor then.
        has_plugins = self._has_plugins and tool.include_plugins
        known = self._asked.get((id(tool.agent), has_plugins))
        if known is None:
            if (id(tool.agent), not has_plugins) in self._asked:
                self._refuse(tool.agent, "a tool with and without include_plugins", "give a second agent")
            above, self._has_plugins = self._has_plugins, has_plugins
            known = self._asked[id(tool.agent), has_plugins] = self.top(tool.agent)
            self._has_plugins = above
        return AskedAgent(known, tool)


def is_lone_node(agent: Any) -> bool:
    """True for a node that is no agent and no graph, where an agent is expected: it is a graph of one node."""
    return not isinstance(agent, AdkBaseAgent | Workflow)


def _is_child(agent: Any, other: Any) -> bool:
    # Of an agent that is a node ADK has made a copy, with children of its own; its tools have kept theirs.
    return is_delegate(other) and any(child is other or child.name == other.name for child in agent.sub_agents)


def _toolset_tool(source: Source, tool: Any) -> AdkTool:
    if node_of(tool) is not None:
        raise DefinitionError(
            f"a toolset of agent {source.agent.name!r} gives the node {tool.name!r}, which is not carried over: "
            "list it in the agent's tools"
        )
    if isinstance(tool, AdkAgentTool):
        raise DefinitionError(
            f"a toolset of agent {source.agent.name!r} gives the agent {tool.name!r}: list it in the agent's tools"
        )
    return AdkTool(source, tool)


def _named(node: Any, tool: Any) -> Any:
    """The node with the name and the description that its tool has: they may be its own."""
    return node if tool.name == node.name else node.model_copy(update={"name": tool.name, "description": tool.description})


def _config(agent: Any) -> dict[str, Any]:
    config = agent.generate_content_config
    return config.model_dump(mode="json", exclude_none=True) if config is not None else {}


def _functions(callback: Any) -> list[Callable[..., Any]]:
    if callback is None:
        return []
    return list(callback) if isinstance(callback, list) else [callback]


def _one(kind: Callable[..., Any], source: Source, callback: Any, **more: Any) -> Any:
    functions = _functions(callback)
    return kind(source, functions, **more) if functions else None


def _shown_contents(agent: Any, is_node: bool) -> dict[str, Any]:
    # In a graph it matters whether an agent says that it sees the conversation.
    is_said = "include_contents" in agent.model_fields_set or not is_node
    return {"include_contents": agent.include_contents} if is_said else {}


def _instruction(source: Source, given: Any) -> Any:
    return Provider(source, given) if callable(given) else given
