"""Parts of google-adk without a counterpart among raygrove's agents, and how they run.

ADK's own Runner runs them, inside one actor, over a session made of the log.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, NamedTuple, Never

import msgspec
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.events.event import Event as AdkEvent
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode, FunctionNode
from google.genai import types

from actors.layers.custom.definitions import CustomAgent, InvocationContext
from actors.messages.event import ADK_FIELDS, USER, Event
from actors.rules.routing.branches import tool_root
from runtime.integrations.adk.contents import adk_event, genai_content, own_event
from runtime.integrations.adk.contexts import adk_run_config
from runtime.integrations.adk.graphs import is_graph
from runtime.integrations.adk.services import Artifacts, RunMemory

_DELEGATED = ("task", "single_turn")

_CALLS_FLOW = frozenset({"super", "_llm_flow", "LlmAgent"})
"""Names by which code of a subclass has LlmAgent run, too."""

_OF_MAKING = frozenset({"model_config", "model_fields", "model_computed_fields", "model_post_init", "config_type"})
"""Names of a class that say how its objects are made."""


class Alien(NamedTuple):
    """What an agent has that raygrove's do not have, and what its author could use instead."""

    what: str
    instead: str


def without_counterpart(agent: Any, *, is_node: bool = False) -> Alien | None:
    """The feature of an agent that has no counterpart; None for one that can be converted, its children aside.

    Args:
        is_node: it is a node of a graph, or below an LlmAgent, so that its mode has a meaning.
    """
    kind = type(agent).__name__
    if not isinstance(agent, BaseAgent):
        return Alien(f"{kind} is a graph that runs in a way of its own", "write a subclass of BaseAgent, or a Flow of raygrove")
    if not runs_model(agent):
        delegates = [child for child in agent.sub_agents if is_delegate(child)]
        if delegates:
            return Alien(f"it delegates to {delegates[0].name!r} by mode={delegates[0].mode!r}", "put an LlmAgent between both")
        return None
    if changed := changed_methods(agent):
        return Alien(
            f"{kind} is a subclass of LlmAgent with {changed[0]} of its own", "use callbacks, or a subclass of BaseAgent"
        )
    if agent.mode in _DELEGATED and not is_node:
        return Alien(f"mode={agent.mode!r}", "leave it out, or use an AgentTool")
    others = [child for child in agent.sub_agents if is_delegate(child) and not runs_model(child)]
    if others:
        return Alien(f"it delegates to {others[0].name!r}, which is a {type(others[0]).__name__}", "put that into an AgentTool")
    if agent.parallel_worker:
        return Alien("parallel_worker", "leave it out, or use a ParallelAgent")
    executor = agent.code_executor
    if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
        return Alien(f"code_executor={type(executor).__name__}", "give code to a tool of your own")
    nodes = [node for node in map(node_of, agent.tools) if node is not None and not (is_graph(node) or is_function(node))]
    if nodes:
        return Alien(f"the node {nodes[0].name!r} ({type(nodes[0]).__name__}) among its tools", "give a function or an AgentTool")
    return None


def runs_model(agent: Any) -> bool:
    """True for an LlmAgent; False for a subclass that has code of its own in place of what an LlmAgent does."""
    return isinstance(agent, LlmAgent) and not _has_own_run(type(agent))


def _has_own_run(kind: type) -> bool:
    """True for a class of LlmAgents whose `_run_async_impl` stands for itself."""
    own = inspect.unwrap(vars(kind).get("_run_async_impl", kind._run_async_impl))  # type: ignore[attr-defined]
    is_own = own is not LlmAgent._run_async_impl and not set(changed_methods(kind)) - {"_run_async_impl"}
    return is_own and not _CALLS_FLOW & set(own.__code__.co_names)


def changed_methods(agent: Any) -> list[str]:
    """The methods and properties of LlmAgent that a subclass has in its own way; without any it runs like an LlmAgent."""
    kind = agent if isinstance(agent, type) else type(agent)
    own = [name for each in kind.__mro__[: kind.__mro__.index(LlmAgent)] for name in vars(each)]
    return [name for name in own if name not in _OF_MAKING and not name.startswith(("__", "_abc_")) and hasattr(LlmAgent, name)]


def node_of(tool: Any) -> Any:
    """The node that a tool runs inside the invocation of its caller, which only ADK's Runner has; None for any other tool."""
    node = getattr(tool, "node", None) if isinstance(tool, BaseTool) else tool
    return node if isinstance(node, BaseNode) and not isinstance(node, BaseAgent) else None


def is_function(node: Any) -> bool:
    """True for a node that calls a function."""
    return isinstance(node, FunctionNode)


def is_delegate(agent: Any) -> bool:
    """True for an agent that works for the calls of the LlmAgent above it."""
    return getattr(agent, "mode", None) in _DELEGATED


_UNKEPT = {"content", "usage_metadata"}
"""Fields of an ADK event that raygrove's event has, so they need not be kept twice."""

# Made unchecked, since ADK warns of its own setting.
_RESUMABLE = ResumabilityConfig.model_construct(is_resumable=True)


class Island(CustomAgent):
    """An ADK agent or node, with all that is below it, in one actor.

    Attributes:
        source: the agent or node.
    """

    resumes_itself: ClassVar[bool] = True

    source: Any
    app_name: str
    resumability: Any = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Run it from the message of the turn, or from where the log ends."""
        # What callbacks have left before is not ADK's.
        done = [event for event in context.done if ADK_FIELDS in (event.custom_metadata or {})]
        if done and self._has_answered(adk_event(done[-1])):
            return
        begin = _begin(await context.session.read_events(), done, context)
        session = Session(id=context.session_id, app_name=self.app_name, user_id=context.user_id)
        session.state = dict(context.state)
        session.events = begin.events
        # Made unchecked: a name that ADK's App refuses may stand in programs that use its Runner without one.
        app = App.model_construct(
            name=self.app_name, root_agent=self.source, plugins=[], resumability_config=begin.resumability or self.resumability
        )
        runner = _Runner(
            app=app, artifact_service=Artifacts(context), memory_service=RunMemory(context), session_service=_Sessions(session)
        )
        produced = runner.run_async(
            user_id=context.user_id,
            session_id=context.session_id,
            new_message=begin.message,
            invocation_id=begin.invocation_id,
            run_config=adk_run_config(context.run_config),
        )
        async with aclosing(produced), aclosing(self._own(produced, begin)) as own:
            async for event in own:
                yield event

    def _has_answered(self, last: AdkEvent) -> bool:
        """True if the run was lost after it had ended: ADK would ask the model once more. A graph finds that out itself."""
        if not isinstance(self.source, LlmAgent) or not last.is_final_response() or last.content is None:
            return False
        author = self.source.find_agent(last.author)
        return author is not None and getattr(author, "mode", None) in (None, "chat")

    async def _own(self, produced: AsyncIterator[AdkEvent], begin: _Begin) -> AsyncGenerator[Event, None]:
        async for event in produced:
            if begin.resumability is not None and event.content is None and _is_checkpoint(event):
                # A checkpoint, which the program would not have without that setting.
                continue
            if event.partial:
                yield own_event(event, author=self.name)
                continue
            kept = event.model_dump(mode="json", exclude=_UNKEPT, exclude_defaults=True)
            if "output" in event.model_fields_set:
                # A node may give None, which is not the same as giving nothing.
                kept.setdefault("output", None)
            own = own_event(event, author=self.name, metadata={ADK_FIELDS: {"event": kept}})
            # Transfers stay inside.
            yield msgspec.structs.replace(own, actions=msgspec.structs.replace(own.actions, transfer_to_agent=None))


class _Begin(msgspec.Struct):
    """Where ADK's Runner begins.

    Attributes:
        events: what it finds in the session.
        message: what it is sent; None when it goes on by itself.
        invocation_id: of the invocation that it goes on with; None for a new one, or one that it finds by the message.
        resumability: in place of the App's; None for the App's.
    """

    events: list[AdkEvent]
    message: types.Content | None
    invocation_id: str | None = None
    resumability: ResumabilityConfig | None = None


def _begin(log: Sequence[Event], done: Sequence[Event], context: InvocationContext) -> _Begin:
    """Where ADK's Runner begins: at the message of the turn, or if the run was lost, where the log ends."""
    root = tool_root(context.branch)
    seen = [event for event in log if event.actions.agent_state is None and tool_root(event.branch) == root]
    asked = max((index for index, event in enumerate(seen) if event.author == USER and not event.steers), default=None)
    events = [adk_event(event) for event in seen]
    # ADK looks for the message of an invocation by the invocation's id, which raygrove's message does not have.
    pairs = list(zip(seen, events, strict=True))
    ids = {event.invocation_id: theirs.invocation_id for event, theirs in pairs if event.author == context.agent_name}
    for event, theirs in pairs:
        if event.author == USER:
            theirs.invocation_id = ids.get(event.invocation_id, event.invocation_id)
    if done and (asked is None or seen[asked].seq < done[-1].seq):
        last = adk_event(done[-1])
        # Only with this setting ADK makes calls that were under way again, in place of asking the model again.
        is_calling = bool(last.get_function_calls()) and not last.long_running_tool_ids
        return _Begin(events, None, last.invocation_id, _RESUMABLE if is_calling else None)
    # ADK's Runner puts the message into the session itself.
    return _Begin([event for index, event in enumerate(events) if index != asked], genai_content(context.user_content))


def _is_checkpoint(event: AdkEvent) -> bool:
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None


class _Runner(Runner):  # type: ignore[misc]
    def _enforce_app_name_alignment(self) -> None:
        """Do not compare the app's name with the folder of the code: sessions are stored under raygrove's name of the app."""


class _Sessions(BaseSessionService):  # type: ignore[misc]
    """The one session of an island. Its events are stored when they come out of ADK's Runner, which waits for that."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get_session(self, **_: Any) -> Session:
        """The session."""
        return self._session

    async def create_session(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")

    async def list_sessions(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")

    async def delete_session(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")
