"""The nodes of a `Workflow` that are no agents: ADK's own code binds their arguments and checks their schemas."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import google.adk.utils._sync_runner as sync_runner
import google.adk.workflow._parallel_worker as parallel_worker
import google.adk.workflow._tool_node as tool_node
import msgspec
from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.agents.context import Context
from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import EventActions
from google.adk.workflow import BaseNode, Workflow
from google.adk.workflow import FunctionNode as AdkFunctionNode
from google.adk.workflow._errors import DynamicNodeFailError as AdkDynamicNodeFailError
from google.adk.workflow.utils._workflow_graph_utils import build_node
from google.genai import types
from pydantic_core import to_jsonable_python

from actors.definitions.tools.context import ToolContext
from actors.errors import DynamicNodeFailError, UnknownAgentError
from actors.errors.user_code import in_thread
from actors.layers.graphs.definitions import FunctionNode, NodeContext, RequestInput, RetryConfig
from actors.layers.graphs.definitions.edges import AgentName
from actors.layers.graphs.definitions.nodes import ParallelWorker, model_class
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import REQUEST_INPUT
from runtime.integrations.adk.contents import as_raised, genai_content, own_content, own_event
from runtime.integrations.adk.contexts import AdkContext, carry_back, invocation_context, read_events_for

ToolNode = tool_node._ToolNode
"""ADK's node that calls a tool."""

ParallelWorkerNode = parallel_worker._ParallelWorker
"""ADK's node that runs another one for each item."""

_INPUT = "node_input"
"""The parameter that takes what the node before has given."""


def function_node(node: Any, app_name: str, state_schema: Any) -> FunctionNode:
    """A node of ADK that is no agent."""
    made = FunctionNode(
        (CallCode if _gives_once(node) else StreamCode)(node, app_name, state_schema),
        name=node.name,
        retry_config=own_retry(node.retry_config),
        timeout=node.timeout,
        rerun_on_resume=node.rerun_on_resume,
        wait_for_output=node.wait_for_output,
    )
    # ADK's own code takes the input, and says of which class it has to be.
    given = getattr(node, "_type_hints", {}).get("node_input")
    made.input_class = model_class(given) if given is not types.Content else None
    return made


def own_retry(given: Any) -> RetryConfig | None:
    """The retries of a node; what it leaves out has the same default in both."""
    if given is None:
        return None
    fields = ("max_attempts", "initial_delay", "max_delay", "backoff_factor", "jitter", "exceptions")
    return RetryConfig(**{name: value for name in fields if (value := getattr(given, name)) is not None})


def with_worker(node: Any) -> Any:
    """The node itself; of one with `parallel_worker=True` the worker that ADK has made of it."""
    inner = getattr(node, "_inner_node", None)
    return node if inner is None else inner


class NodeCode:
    """ADK's code of a node, with ADK's context; what it yields as raygrove's events.

    Args:
        node: ADK's.
        state_schema: of the state, as its graph has it, or one around that; None where none has one.
    """

    def __init__(self, node: Any, app_name: str, state_schema: Any) -> None:
        self.node = node
        self._app_name = app_name
        self._state_schema = state_schema

    async def run(self, ctx: NodeContext, node_input: Any) -> AsyncGenerator[Any, None]:
        """Run the node, and yield what it yields."""
        await read_events_for(getattr(self.node, "_func", self.node), ctx)
        theirs = AdkNodeContext(ctx, self.node, self._app_name, self._state_schema)
        given = genai_content(node_input) if isinstance(node_input, Content) else _of_tool(self.node, node_input)
        with _carried(theirs, ctx):
            async with aclosing(self._events(theirs, given)) as events:
                async for event in events:
                    yield theirs.told(event)
        if (output := theirs.unsaid_output) is not None:
            ctx.output = BaseNode._to_serializable(output)
        if (route := theirs.unsaid_route) is not None:
            ctx.route = route

    async def _events(self, theirs: AdkNodeContext, given: Any) -> AsyncGenerator[AdkEvent, None]:
        async def in_threads(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
            return await in_thread(self._called, theirs, given, function, arguments)

        async with aclosing(self.node.run(ctx=theirs, node_input=given)) as events:
            while True:
                # Sync functions run in threads. The binding must not last while this generator is suspended.
                with sync_runner._use_sync_callable_runner(in_threads):
                    event = await anext(events, None)
                if event is None:
                    return
                yield event

    def _called(self, theirs: AdkNodeContext, given: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if function is getattr(self.node, "_func", None) and self.node._context_param_name in arguments:
            # It may write: what it is given of the state is read where it runs, so that no other function writes that meanwhile.
            kept = {name: arguments[name] for name in (_INPUT, self.node._context_param_name) if name in arguments}
            arguments = {**self.node._bind_parameters(theirs, given), **kept}
        return function(**arguments)


class StreamCode(NodeCode):
    """The function of a node that may yield several events."""

    async def __call__(self, ctx: NodeContext, node_input: Any) -> AsyncIterator[Any]:
        """Run the node, and yield what it yields."""
        async with aclosing(self.run(ctx, node_input)) as given:
            async for each in given:
                yield each


class CallCode(NodeCode):
    """The function of a node that is over with its first event, such as one that calls a function: its end is that event."""

    async def __call__(self, ctx: NodeContext, node_input: Any) -> Any:
        """Run the node, and return what it yields; None for nothing."""
        async with aclosing(self.run(ctx, node_input)) as given:
            found = [each async for each in given]
        return found[0] if found else None


def _gives_once(node: Any) -> bool:
    function = getattr(node, "_func", None)
    return type(node) is AdkFunctionNode and function is not None and not is_generator(function)


def is_generator(function: Callable[..., Any]) -> bool:
    """True for a function, or a callable object, that yields what it gives, async or not."""
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)


@contextmanager
def _carried(theirs: AdkNodeContext, ours: NodeContext) -> Iterator[None]:
    """Take over what the node has written, however it ends; the failure of a run below it goes up as raygrove knows it."""
    try:
        yield
    except AdkDynamicNodeFailError as error:
        if isinstance(error.__cause__, DynamicNodeFailError):
            raise error.__cause__ from None
        raise
    finally:
        carry_back(theirs, ours)


class AdkNodeContext(AdkContext):
    """ADK's context of a node that is no agent.

    Args:
        ours: raygrove's.
        state_schema: see NodeCode.
    """

    def __init__(self, ours: NodeContext, node: Any, app_name: str, state_schema: Any) -> None:
        within = invocation_context(node, ours, app_name)
        within._state_schema = state_schema
        Context.__init__(
            self,
            within,
            node=node,
            node_path=ours.node_path,
            run_id=ours.run_id,
            resume_inputs=dict(ours.resume_inputs),
            attempt_count=ours.attempt_count,
        )
        self._ours = ours
        # What it runs has the schema of the node itself, if that has one.
        self._runs = NodesBelow(self, ours, app_name, self.state._schema)
        self._has_said: set[str] = set()
        self._output_value: Any = None
        self._route_value: Any = None

    def told(self, event: AdkEvent) -> Any:
        """Take an event of the node for raygrove: it has what was written before it, unless it is a piece of a later one."""
        if event.output is not None:
            self._output_value = self._output_value if self._output_value is not None else event.output
            self._has_said.add("output")
        if event.actions.route is not None:
            self._route_value = event.actions.route
            self._has_said.add("route")
        if event.partial:
            return _as_own(event.model_copy(update={"actions": EventActions()}))
        if getattr(self.state, "_schema", None) is not None:
            # ADK's state checks what is written into it, by the schema of the node or of its graph.
            self.state.update(event.actions.state_delta)
        carry_back(self, self._ours)
        own = _as_own(event)
        self._event_actions.state_delta.clear()
        return own

    @property
    def unsaid_output(self) -> Any:
        """The output that was set, and that no event has said."""
        return None if "output" in self._has_said else self._output_value

    @property
    def unsaid_route(self) -> Any:
        """The route that was set, and that no event has said."""
        return None if "route" in self._has_said else self._route_value

    async def run_node(
        self,
        node: Any,
        node_input: Any = None,
        *,
        use_as_output: bool = False,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
        override_isolation_scope: str | None = None,
        raise_on_wait: bool = False,
    ) -> Any:
        """Run a node below this one. A run that waits for the user interrupts this one, as with `raise_on_wait`."""
        if override_isolation_scope is not None:
            self._refuse("override_isolation_scope", "each run has a scope of its own")
        options = {"run_id": run_id, "use_sub_branch": use_sub_branch, "override_branch": override_branch}
        return await self._runs(node, node_input, use_as_output=use_as_output, raise_on_wait=raise_on_wait, **options)


class NodesBelow:
    """Runs ADK's nodes below a node or a call of a tool.

    Args:
        theirs: ADK's context of it.
        ours: raygrove's.
        state_schema: see NodeCode.
    """

    def __init__(self, theirs: AdkContext, ours: NodeContext | ToolContext, app_name: str, state_schema: Any = None) -> None:
        self._theirs = theirs
        self._ours = ours
        self._app_name = app_name
        self._schema = state_schema

    async def __call__(self, node: Any, node_input: Any = None, *, raise_on_wait: bool = False, **options: Any) -> Any:
        """Run a node, and return its output. Raises DynamicNodeFailError (google-adk), NotCarriedOverError.

        Args:
            raise_on_wait: makes no difference: a run that waits for the user never gives None.
        """
        del raise_on_wait
        carry_back(self._theirs, self._ours)
        given = own_content(node_input) if isinstance(node_input, types.Content) else BaseNode._to_serializable(node_input)
        try:
            return await self._ours.run_node(self._own(node), given, **options)
        except DynamicNodeFailError as error:
            raised = as_raised(error.__cause__ or error)
            raise AdkDynamicNodeFailError(message=str(error), error=raised, error_node_path=str(error.args[0])) from error
        except UnknownAgentError:
            self._theirs._refuse(
                f"run_node of the agent {getattr(node, 'name', node)!r}, which nothing has shown to be below it,",
                "put it into the edges of the Workflow, or have the function of the node name it: as a global, in its closure or "
                "as an attribute of its node; of a tool, put it into the sub_agents of its agent",
            )

    def _own(self, given: Any) -> Any:
        if isinstance(given, AdkBaseAgent | Workflow):
            return AgentName(given.name, retry_config=own_retry(given.retry_config), timeout=given.timeout)
        node = with_worker(given if isinstance(given, BaseNode) else build_node(given))
        if isinstance(node, ParallelWorkerNode):
            return ParallelWorker(self._own(node._node), max_parallel_workers=node.max_parallel_workers)
        return function_node(node, self._app_name, self._schema)


def _of_tool(node: Any, given: Any) -> Any:
    """The input of a node: a content that another node has given as its output is one again for a tool, which reads its text."""
    is_content = isinstance(node, ToolNode) and isinstance(given, dict) and given.keys() == {"parts", "role"}
    return types.Content.model_validate(given) if is_content else given


def _as_own(event: AdkEvent) -> Any:
    """Take what a node has yielded: a question, or an event."""
    for call in event.get_function_calls():
        if call.name == REQUEST_INPUT:
            args = call.args or {}
            return RequestInput(
                interrupt_id=call.id,
                message=args.get("message"),
                payload=to_jsonable_python(args.get("payload"), exclude_none=True),
                response_schema=args.get("response_schema"),
            )
    own = own_event(event)
    actions = msgspec.structs.replace(own.actions, route=event.actions.route)
    output = BaseNode._to_serializable(event.output)
    made: Event = msgspec.structs.replace(own, author="", branch=event.branch, output=output, actions=actions)
    return made
