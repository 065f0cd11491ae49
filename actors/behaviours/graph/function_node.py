"""The run of a node that is a function: its arguments, the events that it yields, and its output."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pydantic

from actors.behaviours.lifecycle import facts_for_user_code
from actors.definitions.graphs.context import NodeContext
from actors.definitions.graphs.nodes import FunctionNode, NodeParameter
from actors.errors import WorkflowDataError
from actors.errors.user_code import in_thread
from actors.interfaces.context import GraphContext
from actors.messages.codec import plain
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, Event, EventActions
from actors.messages.graph import NodeInfo, Route
from actors.messages.json_types import JsonValue, StateDelta
from actors.messages.protocol.outcomes import Failed
from actors.rules.graph.progress import Given
from actors.rules.recovery.failures import failure_event

INPUT = "node_input"
"""The parameter that takes what the node before has given."""


class NodeEnd(NamedTuple):
    """What a node leaves to the graph.

    Attributes:
        events: the last ones of the run, not stored yet; the last of them says that the run is over.
        output: what it gives to the nodes after it; None for nothing.
        routes: what it has said.
        is_note: the events say nothing but that the run is over.
    """

    events: Sequence[Event]
    output: JsonValue = None
    routes: Sequence[Route] = ()
    is_note: bool = False


class NodeCall:
    """One attempt of one run.

    A run that was lost begins again. The first events that its generator yields then are taken for those that the log has, and
    are not stored again.

    Args:
        node: what to call.
        info: says in each event of the run which node it is from.
        given: its input.
        branch: of its events.
        attempt: from 1.
        stored_before: so many events of the attempt the log has.
        context: the graph's run.
    """

    def __init__(
        self,
        node: FunctionNode,
        info: NodeInfo,
        given: Given,
        branch: str | None,
        attempt: int,
        stored_before: int,
        context: GraphContext,
    ) -> None:
        self._node = node
        self._info = info
        self._given = given
        self._context = context
        self._branch = branch
        self._stored_before = stored_before
        self._routes: Sequence[Route] = ()
        self._output: JsonValue = None
        self._has_output = False
        self._written: StateDelta = {}
        facts = {**facts_for_user_code(context), "branch": branch}
        self._of_node = NodeContext(
            node_path=info.path,
            run_id=info.path.rpartition("@")[2],
            attempt_count=attempt,
            artifacts=context.artifacts,
            memory=context.memory,
            **facts,
        )

    async def run(self) -> NodeEnd:
        """Call the function, and store what it yields.

        Raises:
            WorkflowDataError: the state lacks an argument.
            ValueError: there is a second output.
            NotEncodableError: the output has no plain form.
            ValidationError: an argument does not fit (pydantic).
        Exception: whatever the function raises.
        """
        function, arguments = self._node.func, self._arguments()
        match self._node.form:
            case "async generator":
                async for given in function(**arguments):
                    await self._store(given)
                return self._end(None)
            case "generator":
                for given in function(**arguments):
                    await self._store(given)
                return self._end(None)
            case "coroutine":
                return self._end(await function(**arguments))
        result = await in_thread(function, **arguments)
        return self._end(await result if inspect.isawaitable(result) else result)

    def failed(self, failed: Failed, *, is_retried: bool) -> Event:
        """The event that the attempt leaves when it has failed."""
        attempt = self._of_node.attempt_count if is_retried else 0
        info = msgspec.structs.replace(self._without_output(), attempt=attempt)
        return msgspec.structs.replace(self._with_actions(failure_event(failed, self._branch)), node_info=info)

    async def _store(self, given: object) -> None:
        event = self._event(given)
        if event is None:
            return
        if not event.partial:
            event = self._with_actions(event)
        if not self._stored_before:
            await self._context.emit(event)
        elif not event.partial:
            self._stored_before -= 1

    def _event(self, given: object) -> Event | None:
        """A value that the function has returned or yielded, as an event; None for nothing."""
        if given is None:
            return None
        if isinstance(given, Event):
            event = given
        elif isinstance(given, Content):
            event = Event(content=given)
        else:
            event = Event(output=plain(self._node.checked_output(given)))
        if event.output is not None:
            event = self._with_output(event, event.output)
        if event.actions.route is not None:
            self._routes = _routes(event.actions.route)
        # A node may move itself, and all that comes after it, to another branch.
        self._branch = event.branch or self._branch
        info = self._info if event.output is not None else self._without_output()
        return msgspec.structs.replace(event, author="", branch=self._branch, node_info=info)

    def _with_output(self, event: Event, output: JsonValue) -> Event:
        if self._has_output:
            raise ValueError(f"{self._info.path} gives a second output: a run of a node gives one")
        self._has_output = True
        self._output = plain(output)
        return msgspec.structs.replace(event, output=self._output, node_info=self._info)

    def _without_output(self) -> NodeInfo:
        return msgspec.structs.replace(self._info, output_for=())

    def _with_actions(self, event: Event) -> Event:
        """Put on an event what the function has written since the one before."""
        written = self._of_node.actions.freeze()
        changed = {key: plain(value) for key, value in written.state_delta.items() if self._is_new(key, value)}
        if not (changed or written.artifact_delta):
            return event
        self._written.update(changed)
        self._of_node.actions.artifact_delta = {}
        actions = msgspec.structs.replace(
            event.actions,
            state_delta={**changed, **event.actions.state_delta},
            artifact_delta={**written.artifact_delta, **event.actions.artifact_delta},
        )
        return msgspec.structs.replace(event, actions=actions)

    def _is_new(self, key: str, value: JsonValue) -> bool:
        return key not in self._written or self._written[key] != value

    def _end(self, returned: object) -> NodeEnd:
        """All that is left to store, in the order in which it is shown: output, route, and what the function has written."""
        said = [self._event(returned)]
        if self._of_node.has_output:
            said.append(self._with_output(Event(branch=self._branch), self._of_node.output))
        if self._of_node.route is not None:
            self._routes = _routes(self._of_node.route)
            said.append(self._empty(EventActions(route=self._of_node.route)))
        events = [event for event in said if event is not None]
        rest = self._with_actions(events.pop(0) if events else self._empty())
        events.insert(0, rest)
        is_note = len(events) == 1 and rest == self._empty()
        events[-1] = ended(events[-1])
        return NodeEnd(events, self._output, self._routes, is_note)

    def _empty(self, actions: EventActions = NO_ACTIONS) -> Event:
        return Event(branch=self._branch, node_info=self._without_output(), actions=actions)

    def _arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, parameter in self._node.parameters.items():
            if name == INPUT:
                found[name] = _bound(parameter, self._given)
            elif name in self._of_node.state:
                found[name] = _bound(parameter, self._of_node.state[name])
            elif parameter.is_required:
                raise WorkflowDataError(self._info.path, f"the state has no {name!r}, and the parameter has no default")
        if self._node.context_parameter is not None:
            found[self._node.context_parameter] = self._of_node
        return found


def ended(event: Event) -> Event:
    """The event, as the last one of its node's run."""
    assert event.node_info is not None
    return msgspec.structs.replace(event, node_info=msgspec.structs.replace(event.node_info, has_ended=True))


def routes_of(event: Event) -> Sequence[Route]:
    """The routes that an event says."""
    return _routes(event.actions.route) if event.actions.route is not None else ()


def _routes(route: Route | list[Route]) -> Sequence[Route]:
    return route if isinstance(route, list) else [route]


def _of_text(adapter: pydantic.TypeAdapter[Any], text: str) -> object:
    """The words of the user, as JSON if they are that."""
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError:
        return adapter.validate_python(text)


def _bound(parameter: NodeParameter, value: Given) -> object:
    if parameter.annotation is Any or parameter.annotation is Content:
        return value
    adapter = pydantic.TypeAdapter(parameter.annotation)
    if not isinstance(value, Content):
        return adapter.validate_python(value)
    return value.text if parameter.annotation is str else _of_text(adapter, value.text)
