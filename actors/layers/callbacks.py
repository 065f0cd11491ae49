"""The callbacks of agents and the hooks of plugins around model calls, tool calls and events (semantics.md 5.5)."""

from __future__ import annotations

import msgspec

from actors.behaviours.interceptor import CallModel, CallTool, PrepareRequest, RunInterceptor
from actors.behaviours.lifecycle import as_response, callback_context, first_result
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.context import Actions, CallbackContext
from actors.messages.content import Content
from actors.messages.drafts import draft_of_response
from actors.messages.event import MORE_RESULTS, NO_ACTIONS, Event
from actors.messages.llm import LlmResponse
from actors.messages.protocol.runs import Paused
from actors.messages.topology import LLM

_KEPT = ("id", "invocation_id", "author", "timestamp", "branch", "partial", "flow", "node_info", "output")
"""Fields that a plugin's replacement of an event cannot change, as it cannot change the route of a node: the log has to have what
the nodes after it are given."""


class BeforeModelCallbacks(RunInterceptor):
    """before_model: changes requests, or takes the place of the call."""

    changes_requests = True

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent with such callbacks."""
        return spec.kind == LLM and bool(spec.hooks("before_model_callback"))

    async def prepare_request(self, prepare: PrepareRequest) -> LlmResponse | None:
        """Call them until one gives a response. They see what tools have changed."""
        if (given := await self.next.prepare_request(prepare)) is not None:
            return given
        replaced = await first_result(self.run.spec.hooks("before_model_callback"), prepare.context, prepare.request)
        return as_response(replaced, self.run.spec.model_name) if replaced is not None else None


class AfterModelCallbacks(RunInterceptor):
    """on_model_error, and after_model around what it gives: for the response, and for each piece of one."""

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent with such callbacks."""
        return spec.kind == LLM and any(map(spec.hooks, ("after_model_callback", "on_model_error_callback")))

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Make the call, and have callbacks replace its response, or the model's error."""
        if call.show is not None and self.run.spec.hooks("after_model_callback"):
            show = call.show

            async def show_replaced(piece: Content | None) -> None:
                if piece is not None:
                    piece = (await self._replaced(LlmResponse(content=piece, partial=True), call.context())).content
                await show(piece)

            call.show = show_replaced
        try:
            response = await self.next.call_model(call)
        except BaseException as error:  # A model is foreign code: a callback may have a response for whatever it raises.
            if error is not call.error:
                raise
            replaced = await first_result(self.run.spec.hooks("on_model_error_callback"), call.context(), call.request, error)
            if replaced is None:
                raise
            response = as_response(replaced, self.run.spec.model_name)
        return await self._replaced(response, call.context())

    async def _replaced(self, response: LlmResponse, context: CallbackContext) -> LlmResponse:
        """Return what the after_model callbacks put in the place of a response, or of a piece of one."""
        after = self.run.spec.hooks("after_model_callback")
        if not after:
            return response
        draft = draft_of_response(response)
        replaced = await first_result(after, context, draft)
        return as_response(draft if replaced is None else replaced, self.run.spec.model_name)


class ToolCallbacks(RunInterceptor):
    """before_tool, on_tool_error and after_tool."""

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent with such callbacks."""
        points = ("before_tool_callback", "on_tool_error_callback", "after_tool_callback")
        return spec.kind == LLM and any(map(spec.hooks, points))

    async def call_tool(self, call: CallTool) -> object:
        """Call the tool, with the callbacks around it."""
        tool, args, context = call.tool, call.args, call.context
        result: object = await first_result(self.run.spec.hooks("before_tool_callback"), tool, args, context)
        if result is None:
            try:
                result = await self.next.call_tool(call)
            except BaseException as error:  # A tool is the user's code.
                if error is not call.error:
                    raise
                result = await first_result(self.run.spec.hooks("on_tool_error_callback"), tool, args, context, error)
                if result is None:
                    raise
            if isinstance(result, Paused):
                return result
        replaced = await first_result(self.run.spec.hooks("after_tool_callback"), tool, args, context, result)
        return result if replaced is None else replaced


class EventHooks(RunInterceptor):
    """on_event: plugins see each event that the run emits."""

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an app with such plugins."""
        return bool(spec.on_event)

    async def change_event(self, event: Event) -> Event:
        """Return the event, or what a plugin puts in its place."""
        actions = Actions()
        replaced = await first_result(
            self.run.spec.hooks("on_event_callback"), callback_context(self.run.context, actions), event
        )
        if replaced is not None:
            event = _replacement(replaced, event)
        if actions.freeze() != NO_ACTIONS:
            before = event.actions
            changed = msgspec.structs.replace(
                before,
                state_delta={**before.state_delta, **actions.state_delta},
                artifact_delta={**before.artifact_delta, **actions.artifact_delta},
            )
            event = msgspec.structs.replace(event, actions=changed)
        # A plugin may keep the one that it has seen.
        return await self.next.change_event(msgspec.structs.replace(event))


def _replacement(given: object, event: Event) -> Event:
    """The event that a plugin gave in place of one, as the same entry of the log."""
    if not isinstance(given, Event):
        raise TypeError(f"on_event_callback must return an Event or None, not {type(given).__name__}")
    actions = msgspec.structs.replace(given.actions, route=event.actions.route)
    metadata = given.custom_metadata
    if event.custom_metadata is not None and MORE_RESULTS in event.custom_metadata:
        metadata = {**(metadata or {}), MORE_RESULTS: event.custom_metadata[MORE_RESULTS]}
    kept = {field: getattr(event, field) for field in _KEPT}
    return msgspec.structs.replace(given, seq=0, actions=actions, custom_metadata=metadata, **kept)
