"""The run of a node that is a function: its arguments, the events that it yields, and its output."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from actors.behaviours.lifecycle import facts_for_user_code
from actors.definitions.tools.context import Actions, ToolContext
from actors.errors import WorkflowDataError
from actors.errors.user_code import in_thread
from actors.interfaces.context import Context
from actors.layers.graphs.behaviour.dynamic import DynamicRuns
from actors.layers.graphs.behaviour.node_attempt import NodeAttempt, NodeEnd, NodePlace, routes, routes_of
from actors.layers.graphs.definitions.checks import StateSchema, checked_route
from actors.layers.graphs.definitions.context import NodeContext, RequestInput, RunState
from actors.layers.graphs.definitions.nodes import INPUT_BINDING, FunctionNode, NodeParameter
from actors.messages.codec import plain
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import NO_ACTIONS, Event, EventActions
from actors.messages.graph import REQUEST_INPUT, NodeInfo, Route
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.protocol.runs import Failed
from actors.messages.shown import shown
from actors.rules.checks.user_message import read_json
from actors.rules.failures import failure_event

INPUT = "node_input"
"""The parameter that takes what the node before has given."""


class NodeCall:
    """One attempt of one run.

    A run that was lost begins again. The first events that its generator yields then are taken for those that the log has, and
    are not stored again.

    Args:
        place: of the run.
        answers: the user's to its questions.
        context: the run of the graph, or of the agent.
        state: as the functions of the graph share it.
        below: the runs that it asks for.
        schema: of the state; None: it may write anything.
    """

    def __init__(
        self,
        node: FunctionNode,
        place: NodePlace,
        attempt: NodeAttempt,
        answers: JsonMapping,
        context: Context,
        state: RunState,
        below: DynamicRuns,
        schema: StateSchema | None = None,
    ) -> None:
        info, branch = place.info, place.branch
        self._node = node
        self._info = info
        self._given = place.given
        self._context = context
        self._state = state
        self._below = below
        self._schema = schema
        self.branch = branch
        self._stored_before = attempt.events
        self._asked: list[str] = []
        self._held: list[Event] = []
        self._routes: Sequence[Route] = ()
        self._output: JsonValue = None
        self._has_output = False
        facts = {**facts_for_user_code(context), "branch": branch}
        self._of_node = NodeContext(
            node_path=info.path,
            run_id=info.path.rpartition("@")[2],
            attempt_count=attempt.number,
            resume_inputs=answers,
            run_node=below.run,
            tool_context=self._tool_context,
            artifacts=context.artifacts,
            actions=Actions(state),
            **facts,
        )

    def _tool_context(self) -> ToolContext:
        context = self._context
        return ToolContext(
            function_call_id=f"{context.invocation_id} {self._info.path}",
            offload=context.offload,
            artifacts=context.artifacts,
            actions=self._of_node.actions,
            **{**facts_for_user_code(context), "branch": self.branch},
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
        match self._node.form:
            case "async generator":
                async for given in self._called():
                    await self._store(given)
                return await self._ended(None)
            case "generator":
                for given in self._called():
                    await self._store(given)
                return await self._ended(None)
            case "coroutine":
                return await self._ended(await self._called())
        # One that may write has its arguments read where it runs: until it returns, no other function in a thread writes them.
        arguments = self._arguments() if self._node.context_parameter is None else None
        result = await in_thread(self._called, arguments)
        return await self._ended(await result if inspect.isawaitable(result) else result)

    def _called(self, arguments: Mapping[str, Any] | None = None) -> Any:
        return self._node.func(**(self._arguments() if arguments is None else arguments))

    def interrupted(self) -> NodeEnd:
        """The pause of the run, which a run below it waits for: what the function has written until then is stored."""
        rest = self._with_actions(self._empty())
        info = msgspec.structs.replace(self._without_output(), has_paused=True, is_note=rest == self._empty())
        events = [*self._held, msgspec.structs.replace(rest, node_info=info)]
        return NodeEnd(events, waits=[*self._asked, *self._below.waits])

    def failed(self, failed: Failed, *, is_retried: bool = False) -> Event:
        """The event that the attempt leaves when it has failed."""
        attempt = self._of_node.attempt_count if is_retried else 0
        info = msgspec.structs.replace(self._without_output(), attempt=attempt)
        event = self._with_actions(failure_event(failed, self.branch))
        self.take_back(event.actions.state_delta)
        return msgspec.structs.replace(event, node_info=info)

    def try_again(self) -> Event:
        """The event that the attempt leaves when a run below it has failed, and said so."""
        info = msgspec.structs.replace(self._without_output(), attempt=self._of_node.attempt_count, is_note=True)
        return msgspec.structs.replace(self._with_actions(self._empty()), node_info=info)

    def take_back(self, kept: Collection[str] = ()) -> None:
        """Take back what was written and is not stored: no other function sees it any more.

        Args:
            kept: keys that an event has which is stored.
        """
        self._state.take_back(self._of_node.actions.state_delta, kept)

    async def _store(self, given: object) -> None:
        event = self._event(given)
        if event is None:
            # To yield None stores what has been written.
            event = self._with_actions(self._empty())
            if event == self._empty():
                return
        elif not event.partial:
            event = self._with_actions(event)
        if event.partial:
            if not self._stored_before:
                await self._context.emit(event)
        elif self._asked:
            # Stored with all that follows, so that the log never has some of the questions only.
            self._held.append(event)
        elif self._stored_before:
            self._stored_before -= 1
            self.take_back()
        else:
            self._state.note_stored(event, await self._context.emit(event))

    def _event(self, given: object) -> Event | None:
        """A value that the function has returned or yielded, as an event; None for nothing."""
        if given is None:
            return None
        if isinstance(given, RequestInput):
            event = self._question(given)
        elif isinstance(given, Event):
            event = given
            # Calls of its own, which the user answers as those of a RequestInput.
            self._asked.extend(call.id for call in given.function_calls() if call.id and call.id in given.long_running_tool_ids)
        elif isinstance(given, Content):
            event = Event(content=given)
        else:
            event = Event(output=plain(self._node.checked_output(given)))
        if event.output is not None:
            event = self._with_output(event, event.output)
        if event.actions.route is not None:
            route = checked_route(event.actions.route)
            event = msgspec.structs.replace(event, actions=msgspec.structs.replace(event.actions, route=route))
            self._routes = routes_of(event)
        # A node may move itself, and all that comes after it, to another branch.
        self.branch = event.branch or self.branch
        info = self._info if event.output is not None else self._without_output()
        return msgspec.structs.replace(event, author="", branch=self.branch, node_info=info)

    def _question(self, given: RequestInput) -> Event:
        # The same again when the function is called again after a loss.
        call_id = given.interrupt_id or f"{self._context.invocation_id} {self._info.path} {len(self._asked) + 1}"
        self._asked.append(call_id)
        return question(call_id, given.args)

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
        made = self._of_node.actions
        written = made.state_delta
        if self._schema is not None and event.error_code is None:
            self._schema.check(self._info.path, {**event.actions.state_delta, **written})
        elif self._schema is not None:
            written = self._schema.fitting(written)
        changed = {key: plain(value) for key, value in written.items()}
        made.forget_state()
        if not (changed or made.artifact_delta):
            return event
        actions = msgspec.structs.replace(
            event.actions,
            state_delta={**event.actions.state_delta, **changed},
            artifact_delta={**made.artifact_delta, **event.actions.artifact_delta},
        )
        made.artifact_delta = {}
        return msgspec.structs.replace(event, actions=actions)

    async def _ended(self, returned: object) -> NodeEnd:
        if self._of_node.route is not None:
            try:
                self._of_node.route = checked_route(self._of_node.route)
            except ValidationError:
                # What it returns is said before its route.
                await self._store(returned)
                raise
        return self._end(returned)

    def _end(self, returned: object) -> NodeEnd:
        """All that is left to store, in the order in which it is shown: output, route, and what the function has written."""
        if self._below.output is not None:
            # That run has said it.
            returned, self._output = None, self._below.output.output
        said = [self._event(returned)]
        if self._of_node.has_output:
            said.append(self._with_output(Event(branch=self.branch), self._of_node.output))
        if self._of_node.route is not None:
            self._routes = routes(self._of_node.route)
            said.append(self._empty(EventActions(route=self._of_node.route)))
        events = [event for event in said if event is not None]
        rest = self._with_actions(events.pop(0) if events else self._empty())
        events.insert(0, rest)
        says_nothing = len(events) == 1 and rest == self._empty()
        if self._asked:
            return NodeEnd([*self._held, *([] if says_nothing else events)], waits=self._asked)
        events[-1] = ended(events[-1], is_note=says_nothing)
        return NodeEnd(events, self._output, self._routes)

    def _empty(self, actions: EventActions = NO_ACTIONS) -> Event:
        return Event(branch=self.branch, node_info=self._without_output(), actions=actions)

    def _input(self) -> JsonMapping:
        """The input as the arguments of the function. Raises WorkflowDataError."""
        given = read_json(self._given.text) if isinstance(self._given, Content) else self._given
        if not isinstance(given, Mapping):
            raise WorkflowDataError(
                self._info.path, f"the input, from which it takes its parameters, is no dictionary: {shown(given)}"
            )
        return given

    def _arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        is_from_input = self._node.parameter_binding == INPUT_BINDING
        source = self._input() if is_from_input else self._of_node.state
        for name, parameter in self._node.parameters.items():
            if name == INPUT and not is_from_input:
                found[name] = self._fitted(name, parameter, self._given)
            elif name in source:
                found[name] = self._fitted(name, parameter, source[name])
            elif parameter.is_required:
                where = "input" if is_from_input else "state"
                raise WorkflowDataError(self._info.path, f"the {where} has no {name!r}, and the parameter has no default")
        if self._node.context_parameter is not None:
            found[self._node.context_parameter] = self._of_node
        return found

    def _fitted(self, name: str, parameter: NodeParameter, value: object) -> object:
        """A value as a parameter has it. Raises ValidationError (pydantic), which names node and parameter."""
        try:
            return parameter.fitted(value)
        except ValidationError as error:
            raise about(f"parameter {name!r} of node {self._info.path!r}", error) from None


def question(call_id: str, args: JsonMapping) -> Event:
    """The event of a question to the user."""
    call = FunctionCall(id=call_id, name=REQUEST_INPUT, args=dict(args))
    return Event(content=Content(role="model", parts=[Part(function_call=call)]), long_running_tool_ids=(call_id,))


def ended(event: Event, *, is_note: bool = False) -> Event:
    """The event, as the last one of its node's run."""
    assert event.node_info is not None
    info = msgspec.structs.replace(event.node_info, has_ended=True, is_note=is_note)
    return msgspec.structs.replace(event, node_info=info)


def about(what: str, error: ValidationError) -> ValidationError:
    """The same error, which says what the value was for: `1 validation error for parameter 'n' of node 'wf@1/add@1'`."""
    details = [
        # Its text as it is: a template would fill in what stands in braces.
        InitErrorDetails(
            type=PydanticCustomError(detail["type"], "{text}", {"text": detail["msg"]}), loc=detail["loc"], input=detail["input"]
        )
        for detail in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(what, details)
