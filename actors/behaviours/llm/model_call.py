"""One model call: the request is built, the model called, and its response made into an event."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from actors.behaviours.callbacks import as_response, first_result
from actors.behaviours.lifecycle import KeepOutput, callback_context
from actors.behaviours.llm.budgeted_model import AllowedCall, BudgetedModel
from actors.behaviours.llm.output import InterimWords
from actors.behaviours.llm.prompt import Prompt
from actors.behaviours.llm.recording import CallRecorder
from actors.behaviours.llm.request import RequestBuilder
from actors.behaviours.llm.tool_calls import ToolCalls
from actors.definitions.agents.planner import BasePlanner
from actors.definitions.tools.context import Actions, CallbackContext
from actors.definitions.tree.spec import AgentSpec
from actors.errors import LlmCallsLimitExceededError
from actors.errors.user_code import is_cancellation
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import NO_ACTIONS, Event, EventActions, Usage, new_event_id
from actors.messages.llm.drafts import draft_of_content, draft_of_response
from actors.messages.llm.model import LlmRequest, LlmResponse
from actors.messages.protocol.log import AskForMore, FailedCall
from actors.rules.checks import model_answer, user_message
from actors.rules.checks.budget_question import question

CALL_ID_PREFIX = "call-"
"""Begins the ids that we give to calls whose model gave them none; they are not sent back to models."""

logger = logging.getLogger(__name__)


class _AnsweredCall(msgspec.Struct, gc=False):
    """A call that the model has answered: by which model, its tokens, and its time.

    Its partial events have the id of the complete one.
    """

    event_id: str
    model: str
    usage: Usage | None
    duration_s: float


class _MoreIsNeededError(Exception):
    """A budget has no room for the call: its question takes the call's place."""

    def __init__(self, asked: AskForMore) -> None:
        super().__init__()
        self.asked = asked


class _Pieces:
    """The pieces of one response, as after_model callbacks and the agent's planner show them.

    Args:
        after: gives what callbacks put in the place of a piece; None: there are none.

    Attributes:
        failed: what a callback has raised, which is no error of the model.
    """

    failed: BaseException | None = None

    def __init__(self, planner: BasePlanner | None, after: Callable[[LlmResponse], Awaitable[LlmResponse]] | None) -> None:
        self._planner = planner
        self._after = after
        self._text = ""

    async def shown(self, content: Content | None) -> Content | None:
        """The next piece; None when nothing of it is to be shown yet. Raises what a callback raises."""
        if content is not None and self._after is not None:
            try:
                content = (await self._after(LlmResponse(content=content, partial=True))).content
            except BaseException as error:
                self.failed = error
                raise
        return content if content is None or self._planner is None else self._planned(content, self._planner)

    def _planned(self, content: Content, planner: BasePlanner) -> Content | None:
        parts: list[Part] = []
        for part in content.parts:
            if part.text and not part.thought and part.carries_only_text():
                parts += planner.partial_text(self._text, part.text)
                self._text += part.text
            else:
                parts.append(part)
        return Content(role=content.role, parts=parts) if parts else None


class ModelCall:
    """Calls an agent's model, with the callbacks around it.

    Args:
        spec: the agent.
        model: its model.
        context: the run.
        prompt: what the model is shown.
        tools: what it may call.
        keep_output: takes a final response as the agent's output; None if it is none.
    """

    def __init__(
        self,
        spec: AgentSpec,
        model: Model,
        context: Context,
        prompt: Prompt,
        tools: ToolCalls,
        keep_output: KeepOutput | None = None,
    ) -> None:
        self._spec = spec
        self._model = BudgetedModel(spec, model, context, spec.model_name)
        self._context = context
        self._requests = RequestBuilder(spec, prompt, tools)
        self._recorder = CallRecorder(spec, context) if spec.recording.share else None
        self._tools = tools
        self._keep_output = keep_output
        self._interim = InterimWords(spec, context.done) if keep_output is not None and context.node_path else None
        # Most agents have no code that would see it.
        self._needs_context = self._requests.is_changed or spec.llm.has_model_callbacks
        self._needs_actions = self._needs_context or keep_output is not None

    async def run(self) -> Event | None:
        """Make one call. Returns the event of the response, which is still to be emitted; None if the model returned nothing.

        Where a budget is used up that has the user asked for more, nothing is called, and the event is the question.

        Raises:
            LlmCallsLimitExceededError, BudgetExceededError, NoPriceError: the turn has no model call left.
            Exception: what the model or a callback raises.
        """
        actions = Actions() if self._needs_actions else None
        event_id = new_event_id()
        context = callback_context(self._context, actions) if actions is not None and self._needs_context else None
        request = await self._requests.build(context)
        try:
            response, answered = await self._response(request, context, event_id)
        except _MoreIsNeededError as needed:
            return question(needed.asked.scope, event_id, needed.asked.facts)
        event_id = answered.event_id if answered is not None else event_id
        if context is not None:
            response = self._planned(response, context)
        if response.content is None and response.error_code in (None, model_answer.NO_CONTENT) and self._context.node_path:
            nothing = Content(role="model", parts=[Part(text="")])
            response = msgspec.structs.replace(response, content=nothing, error_code=None, error_message=None)
        if response.content is None and response.error_code is None:
            await self._note_nothing(actions.freeze() if actions is not None else EventActions(), answered)
            return None
        has_calls = response.content is not None and any(response.content.function_calls())
        if has_calls and response.content is not None:
            content = await self._with_unique_ids(response.content)
            response = msgspec.structs.replace(response, content=content)
            await self._tools.decide(content.function_calls())
        event = self._event(response, actions, event_id, answered, has_calls=has_calls)
        if event.content is None:
            return event
        places = model_answer.large_data(event.content.parts, self._spec.limits.max_inline_bytes)
        return await self._with_large_data_saved(event, event.content, places) if places else event

    async def _note_nothing(self, frozen: EventActions, answered: _AnsweredCall | None) -> None:
        """Store what has come of a call without an answer: what was paid for is in the log, also where it was nothing."""
        has_budget = bool(self._context.run_config.budgets)
        if frozen != NO_ACTIONS or (answered is not None and (answered.usage is not None or has_budget)):
            event = Event(actions=frozen)
            _add_cost(event, answered)
            await self._context.emit(event)

    async def find_appended_tools(self, calls: Iterable[FunctionCall]) -> None:
        """Find the tools that callbacks had appended to the request before the run was lost, or paused, at these calls.

        The callbacks are called again for that, with a request that is not sent; what they write into their context is dropped.
        They are not called when the agent has all these tools itself. Raises what a callback raises.
        """
        if not self._spec.hooks("before_model_callback") or all(call.name in self._tools.by_name for call in calls):
            return
        context = callback_context(self._context, Actions())
        await self._replaced(await self._requests.build(context), context)

    async def _replaced(self, request: LlmRequest, context: CallbackContext) -> object:
        """Have callbacks change the request, and settle it. Returns the response that one puts in the model's place, or None."""
        replaced = await first_result(self._spec.hooks("before_model_callback"), context, request)
        self._requests.settle(request)
        return replaced

    async def _response(
        self, request: LlmRequest, context: CallbackContext | None, event_id: str
    ) -> tuple[LlmResponse, _AnsweredCall | None]:
        """Return the model's response, or what callbacks put in its place; and what the call has used, if it was answered."""
        if context is not None and (replaced := await self._replaced(request, context)) is not None:
            return self._replacement(replaced), None
        allowed = await self._model.allowed(request)
        if isinstance(allowed, AskForMore):
            raise _MoreIsNeededError(allowed)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answered = None
        after = partial(self._after_callbacks, context=context) if self._spec.llm.after_model else None
        pieces = _Pieces(self._spec.llm.planner, after)
        try:
            response, answered = await self._answered(allowed, event_id, pieces)
            for _ in range(self._spec.limits.empty_answer_retries):
                # Of a node an empty answer is an answer, which goes to the nodes after it.
                is_answer = response.error_code is None and bool(self._context.node_path)
                if is_answer or not model_answer.may_pass(response) or (again := await self._allowed_again(request)) is None:
                    break
                why = response.error_code or model_answer.NO_CONTENT
                logger.warning("model %r gave no answer (%s), and is asked again", answered.model, why)
                await self._note_nothing(NO_ACTIONS, answered)
                began_s = loop.time()
                response, answered = await self._answered(again, new_event_id(), pieces)
            response = model_answer.with_reason(response)
        except BaseException as error:  # A model is foreign code: a callback may have a response for whatever it raises.
            if is_cancellation(error) or error is pieces.failed:
                raise
            self._note_failed(request, error, loop.time() - began_s)
            replaced = await first_result(self._spec.llm.on_model_error, context, request, error)
            if replaced is None:
                raise
            response = self._replacement(replaced)
        return await self._after_callbacks(response, context), answered

    async def _after_callbacks(self, response: LlmResponse, context: CallbackContext | None) -> LlmResponse:
        """Return what the after_model callbacks put in the place of a response, or of a piece of one."""
        after = self._spec.llm.after_model
        if not after:
            return response
        draft = draft_of_response(response)
        replaced = await first_result(after, context, draft)
        return self._replacement(draft if replaced is None else replaced)

    async def _allowed_again(self, request: LlmRequest) -> AllowedCall | None:
        """Have a second call counted; None if limits or budgets have no room. Raises like BudgetedModel.allowed_if_room."""
        try:
            allowed = await self._model.allowed_if_room(request)
        except LlmCallsLimitExceededError:
            return None
        return allowed if isinstance(allowed, AllowedCall) else None

    async def _answered(self, allowed: AllowedCall, event_id: str, pieces: _Pieces) -> tuple[LlmResponse, _AnsweredCall]:
        """Make one call. Returns its response, and what it has used."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        response = await self._generate(allowed, event_id, pieces)
        name = response.model_version or allowed.request.model or self._model.name
        return response, _AnsweredCall(event_id, name, response.usage, loop.time() - began_s)

    def _note_failed(self, request: LlmRequest, error: BaseException, took_s: float) -> None:
        model = request.model or self._model.name
        self._context.note_failed_call(FailedCall(self._spec.name, model, type(error).__name__, took_s))

    def _planned(self, response: LlmResponse, context: CallbackContext) -> LlmResponse:
        """Return the response with the parts that the agent's planner makes of it."""
        planner = self._spec.llm.planner
        if planner is None or response.content is None:
            return response
        draft = draft_of_content(response.content)
        parts = planner.process_planning_response(context, list(draft.parts))
        return self._replacement(msgspec.structs.replace(response, content=Content(parts=parts or draft.parts)))

    def _generate(self, allowed: AllowedCall, event_id: str, pieces: _Pieces) -> Coroutine[Any, Any, LlmResponse]:
        """Return the complete response, and emit the partial ones before it."""
        recorder = self._recorder
        if recorder is None:
            return self._answer(allowed, event_id, pieces)
        return self._recorded(recorder, allowed, event_id, pieces)

    async def _recorded(self, recorder: CallRecorder, allowed: AllowedCall, event_id: str, pieces: _Pieces) -> LlmResponse:
        with recorder.call(allowed.request, event_id) as recorded:
            response = await self._answer(allowed, event_id, pieces)
            recorded.usage = response.usage
        return response

    async def _answer(self, allowed: AllowedCall, event_id: str, pieces: _Pieces) -> LlmResponse:
        name, stream = self._model.name, self._context.streaming
        answer = model_answer.ModelAnswer(name)
        with self._context.telemetry.model_call(allowed.request, name, stream=stream) as call:
            async with allowed.responses(stream=stream) as responses:
                async for response in responses:
                    call.chunk()
                    if getattr(response, "partial", False):
                        content = answer.add_partial(response.content, self._spec.limits.max_inline_bytes)
                        await self._context.emit(Event(id=event_id, content=await pieces.shown(content), partial=True))
                    else:
                        answer.add_complete(response)
            response = model_answer.checked_response(answer.complete(), name, logger.warning)
            call.answered(response)
        return response

    def _replacement(self, given: object) -> LlmResponse:
        """The response that a callback returned in place of another one."""
        return model_answer.checked_response(as_response(given), self._model.name, logger.warning)

    async def _with_unique_ids(self, content: Content) -> Content:
        """A content with calls, with an id on each of them that no other call has that the agent sees."""
        view = await self._context.view()
        used: set[str] = set()
        parts = []
        for part in content.parts:
            call = part.function_call
            if call is not None and (not call.id or call.id in used or view.has_call(call.id)):
                call = msgspec.structs.replace(call, id=f"{CALL_ID_PREFIX}{uuid.uuid4().hex}")
                part = msgspec.structs.replace(part, function_call=call)
            if call is not None and call.id:
                used.add(call.id)
            parts.append(part)
        return Content(role=content.role, parts=parts)

    def _event(
        self, response: LlmResponse, actions: Actions | None, event_id: str, answered: _AnsweredCall | None, *, has_calls: bool
    ) -> Event:
        event = Event(
            id=event_id,
            content=response.content,
            finish_reason=response.finish_reason,
            error_code=response.error_code,
            error_message=response.error_message,
            usage=response.usage,
            model_version=response.model_version,
            grounding_metadata=response.grounding_metadata,
            custom_metadata=response.custom_metadata,
            long_running_tool_ids=self._tools.long_running_ids(response.content) if has_calls else (),
        )
        if actions is not None:
            if self._keep_output is not None and event.is_final_response():
                self._keep_output(event, actions)
            elif self._interim is not None:
                self._interim.note(event, actions)
        frozen = actions.freeze() if actions is not None else EventActions()
        if event.long_running_tool_ids:
            confirmations = self._tools.confirmations(event.content)
            frozen = msgspec.structs.replace(frozen, requested_tool_confirmations=confirmations)
        # Nothing else refers to the new object, so its fields can be set: a copy of an event costs as much as the event.
        msgspec.structs.force_setattr(event, "actions", frozen)
        _add_cost(event, answered)
        return event

    async def _with_large_data_saved(self, event: Event, content: Content, places: Sequence[int]) -> Event:
        """The event with data that is too large for the log, in some parts of its content, saved as artifacts.

        Placeholders stand in these places.
        """
        parts = list(content.parts)
        saved: dict[str, int] = {}
        for index in places:
            filename = user_message.artifact_name(event.id, index)
            saved[filename] = await self._context.artifacts.save(filename, parts[index])
            parts[index] = model_answer.placeholder(filename, parts[index])
        actions = msgspec.structs.replace(event.actions, artifact_delta={**event.actions.artifact_delta, **saved})
        return msgspec.structs.replace(event, content=Content(role=content.role, parts=parts), actions=actions)


def _add_cost(event: Event, answered: _AnsweredCall | None) -> None:
    """Add to the new event of a response what its call has used: a callback may have put another one in its place."""
    if answered is None:
        return
    fill = msgspec.structs.force_setattr
    if event.usage is None:
        fill(event, "usage", answered.usage)
    fill(event, "model_version", answered.model)
    fill(event, "duration_s", answered.duration_s or None)
