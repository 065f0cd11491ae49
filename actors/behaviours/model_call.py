"""One model call of an LLM agent: its prompt and request are built, the model called, and its response made into an event.

Around each call are three interceptors: it is counted, repeated when its answer is empty, and counted again when it fails.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol, cast

import msgspec

from actors.behaviours.interceptor import CallLeftOutError, CallModel, EventInsteadError, PrepareRequest, RunInterceptor
from actors.behaviours.lifecycle import KeepOutput, callback_context, facts_for_user_code
from actors.behaviours.tool_calls import ToolCalls
from actors.definitions.agents.agent_tools import RULES
from actors.definitions.agents.callbacks import UserCallback
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.spec import AgentSpec, OwnTools
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext
from actors.errors import LlmCallsLimitExceededError, OutputSchemaError, StoreError
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.drafts import ContentDrafts, own_contents
from actors.messages.event import NO_ACTIONS, Event, EventActions, new_event_id
from actors.messages.json_types import JsonValue
from actors.messages.llm import FunctionDeclaration, GenerateContentConfig, LlmRequest, LlmResponse
from actors.messages.protocol.log import Append, Appended, FailedCall
from actors.messages.protocol.runs import TakeLlmCall
from actors.messages.shown import shown
from actors.messages.topology import TASK
from actors.rules.checks import model_answer, user_message
from actors.rules.prompt import instructions
from actors.rules.prompt.instructions import place_before, transient_place

CALL_ID_PREFIX = "call-"
"""Begins the ids that we give to calls whose model gave them none; they are not sent back to models."""

NUMBERED_ID = re.compile(r"(?:(?:call|tool|toolu|functions?\.[\w-]+)[_:])?\d{1,6}")
"""Ids of services that number the calls of a conversation: agents that run at the same time get equal ones."""

logger = logging.getLogger(__name__)


class Prompt(Protocol):
    """What differs between the model calls of an agent in a conversation and in a flow.

    Attributes:
        has_output_schema: the response has to fit the agent's `output_schema`, if it has one.
        fixed_instruction: the system instruction, where it is the same for every call; else None.
    """

    has_output_schema: bool
    fixed_instruction: str | None

    async def contents(self) -> list[Content]:
        """Return the conversation, oldest first."""
        ...

    async def system_instruction(self) -> str:
        """Return the system instruction. Raises TemplateError, and what the user's functions raise."""
        ...


class AgentPrompt:
    """Implements `Prompt` for an agent in a conversation."""

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._spec = spec
        # The output of a task is the arguments of a call.
        self.has_output_schema = spec.mode != TASK
        self.fixed_instruction = spec.fixed_instruction
        self._context = context
        self._templates = Templates(spec, context)

    async def contents(self) -> list[Content]:
        """Return as much of the conversation as the agent includes."""
        view = await self._context.view()
        contents = view.contents(self._spec.llm_agent.include_contents)
        if given := self._context.run_config.model_input_context:
            place = place_before(contents, view.message_of(self._context.invocation_id))
            contents = [*contents[:place], *given, *contents[place:]]
        return await self._templates.placed_in(contents) if self._spec.llm_agent.static_instruction else contents

    async def system_instruction(self) -> str:
        """Return the instructions of the tree and of the agent, its identity, its transfer targets, and how its task ends."""
        rules = RULES if self._spec.mode == TASK else ""
        return instructions.join([*await self._templates.of_agent(), self._spec.transfer_menu.instruction, rules])


class Templates:
    """Fills in the instructions that users write, with the state and the artifacts of one run."""

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._spec = spec
        self._context = context

    async def of_agent(self) -> list[str]:
        """Return the tree's instruction, the agent's static one, its own, and its identity, "" where there is none."""
        agent = self._spec.llm_agent
        return [
            await self.filled_in(self._spec.global_instruction) if self._spec.global_instruction else "",
            agent.static_instruction,
            await self.filled_in(agent.instruction) if agent.instruction and not agent.static_instruction else "",
            self._spec.identity,
        ]

    async def placed_in(self, contents: list[Content]) -> list[Content]:
        """Return the conversation, with the instruction of an agent that has a static one before the newest message."""
        agent = self._spec.llm_agent
        instruction = await self.filled_in(agent.instruction) if agent.static_instruction else ""
        if not instruction:
            return contents
        place = transient_place(contents)
        return [*contents[:place], Content.of_text(instructions.of_this_turn(instruction)), *contents[place:]]

    async def filled_in(self, given: str | Callable[..., Any]) -> str:
        """Return the text of an instruction: a template, or a function of a ReadonlyContext, whose result is no template."""
        if not given:
            return ""
        if callable(given):
            return str(await UserCallback(given, "instruction")(ReadonlyContext(**facts_for_user_code(self._context))))
        names = instructions.artifact_names(given)
        artifacts = {name: await self._artifact_text(name) for name in names} if names else {}
        return instructions.render(given, self._context.state, artifacts, self._spec.name)

    async def _artifact_text(self, filename: str) -> str | None:
        part = await self._context.artifacts.load(filename)
        if part is None:
            return None
        if part.inline_data is not None:
            return part.inline_data.data.decode(errors="replace")
        return part.text or ""


def output_keeper(spec: AgentSpec) -> KeepOutput | None:
    """Return the function that keeps an agent's output; None for an agent whose output is kept nowhere and has no schema."""
    agent = spec.llm_agent
    return partial(_keep, agent) if agent.output_key or agent.output_type is not None else None


def _keep(agent: LlmAgent, event: Event, actions: Actions) -> None:
    """Note what an event says under `output_key`, as text, or as data that fits `output_schema`. Raises OutputSchemaError."""
    text = event.text
    parts = event.content.parts if event.content is not None else ()
    is_said = bool(text) or any(part.text is not None and not part.thought for part in parts)
    if not is_said or any(event.function_calls()):
        return
    value: JsonValue = text
    if agent.output_type is not None:
        try:
            value = agent.output_type.value_of(text)
        except ValueError as error:
            if agent.keeps_unfit():
                return
            raise OutputSchemaError(agent.name, f"{error}. It answered {shown(text)}") from error
    if agent.output_key:
        actions.state_delta[agent.output_key] = value


class InterimWords:
    """Notes what an agent that is a node says beside its calls under `output_key`; its final response takes the place of that.

    Source: google-adk from 2.13 on, for text that comes before a call.

    Args:
        done: what the run had stored before it was lost or paused.
    """

    def __init__(self, spec: AgentSpec, done: Sequence[Event]) -> None:
        agent = spec.llm_agent
        self._key = agent.output_key if agent.output_type is None else None
        self._said = "".join(event.text for event in done if event.author == spec.name) if self._key else ""

    def note(self, event: Event, actions: Actions) -> None:
        """Take in a response that is not the final one."""
        if self._key and event.text and not event.partial:
            self._said += event.text
            actions.state_delta[self._key] = self._said


class ModelCall:
    """Calls an agent's model.

    Args:
        keep_output: takes a final response as the agent's output; None if it is none.
    """

    def __init__(
        self,
        spec: AgentSpec,
        model: Model,
        context: Context,
        interceptors: RunInterceptor,
        prompt: Prompt,
        tools: ToolCalls,
        keep_output: KeepOutput | None = None,
    ) -> None:
        self._spec = spec
        self._model = model
        self._context = context
        self._interceptors = interceptors
        self._prompt = prompt
        self._tools = tools
        # Tools or interceptors may change requests, so these are copies. Others are not: a long conversation stands in one list.
        self._changes_requests = bool(tools.given.changing) or interceptors.changes_requests
        self._keep_output = keep_output
        self._interim = InterimWords(spec, context.done) if keep_output is not None and context.node_path else None

    async def run(self) -> Event | None:
        """Read the messages that wait for the run, and make one call.

        Returns:
            The event of the response, which is still to be emitted; None if the model returned nothing.

        Raises:
            LlmCallsLimitExceededError: the turn has no model call left.
            FencedError: the turn was taken over or has ended.
            Exception: what the model or an interceptor raises.
        """
        if self._context.has_messages:
            try:
                await self._context.inbox.read()
            except StoreError as error:
                logger.warning("messages to agent %s are read later: %s", self._context.agent_name, error)
        actions = Actions()
        # Made for the first that asks for it: most calls have no callback that sees them.
        context = cache(partial(callback_context, self._context, actions))
        request = await self._built_request()
        call = CallModel(
            model=self._model,
            name=self._spec.model_name,
            request=request,
            event_id=new_event_id(),
            context=context,
            streams=self._context.streaming,
        )
        call.show = partial(self._show, call)
        try:
            response = await self._prepared(request, context) or await self._interceptors.call_model(call)
        except EventInsteadError as instead:
            return instead.event
        finally:
            # It refers to the call: without this each call is left to the collector.
            call.show = None
        if response.content is None and response.error_code in (None, model_answer.NO_CONTENT) and self._context.node_path:
            nothing = Content(role="model", parts=[Part(text="")])
            response = msgspec.structs.replace(response, content=nothing, error_code=None, error_message=None)
        if response.content is None and response.error_code is None:
            await emit_cost(self._context, call, actions.freeze())
            return None
        has_calls = response.content is not None and any(response.content.function_calls())
        if has_calls and response.content is not None:
            content = await self._with_unique_ids(response.content)
            response = msgspec.structs.replace(response, content=content)
            await self._tools.decide(content.function_calls())
        event = self._event(response, actions, call, has_calls=has_calls)
        if event.content is None:
            return event
        places = model_answer.large_data(event.content.parts, self._spec.limits.max_inline_bytes)
        return await self._with_large_data_saved(event, event.content, places) if places else event

    async def find_appended_tools(self, calls: Iterable[FunctionCall]) -> None:
        """Find the tools that interceptors had appended to the request before the run was lost, or paused, at these calls.

        They prepare a request again for that, which is not sent; what they write into their context is dropped. Nothing is done
        when the agent has all these tools itself. Raises what they raise.
        """
        if not self._interceptors.changes_requests or all(call.name in self._tools.by_name for call in calls):
            return
        await self._prepared(await self._built_request(), partial(callback_context, self._context, Actions()))

    async def _prepared(self, request: LlmRequest, make_context: Callable[[], CallbackContext]) -> LlmResponse | None:
        """Have tools and interceptors change the request. Returns the response that one has in place of the model's, or None."""
        if not self._changes_requests:
            return None
        context = make_context()
        perform = partial(self._tools.change_request, request, context)
        replaced = await self._interceptors.prepare_request(PrepareRequest(request=request, context=context, perform=perform))
        self._settle(request)
        return replaced

    async def _built_request(self) -> LlmRequest:
        """Return the request as interceptors get it. It has to be settled when they have changed it."""
        agent, model, tools = self._spec.llm_agent, self._spec.model, self._tools.own
        schema = agent.output_type
        declared = _declared(self._tools.given) if tools else {}
        contents = await self._prompt.contents()
        instruction = self._prompt.fixed_instruction
        if instruction is None:
            instruction = await self._prompt.system_instruction()
        request = LlmRequest(
            model=model if isinstance(model, str) else getattr(model, "model", ""),
            agent=self._spec.name,
            contents=ContentDrafts(contents) if self._changes_requests else contents,
            tools=list(declared.values()),
            config=GenerateContentConfig(agent.generate_content_config, system_instruction=instruction),
            output_schema=dict(schema.json_schema) if schema is not None and self._prompt.has_output_schema else None,
        )
        if agent.code_executor is not None:
            agent.code_executor.process_request(request)
        if not self._changes_requests:
            return request
        # The agent's configuration is not to be changed with the request.
        request.config = GenerateContentConfig.of(request.config)
        request.tools_dict.update((name, tools[name]) for name in declared)
        return request

    def _settle(self, request: LlmRequest) -> None:
        """Bring what tools and interceptors have left in a request into the form that models get.

        Raises:
            TypeError: a content, the configuration or the system instruction is of a wrong kind.
            InvalidMessageError: a content has wrong fields.
        """
        contents = request.contents
        request.contents = contents.settled() if isinstance(contents, ContentDrafts) else own_contents(contents)
        request.config = GenerateContentConfig.of(request.config)
        self._tools.by_name = {**self._tools.own, **cast(Mapping[str, Tool], request.tools_dict)}

    async def _show(self, call: CallModel, content: Content | None) -> None:
        """Emit a piece of a response."""
        await self._context.emit(Event(id=call.event_id, content=content, partial=True))

    async def _with_unique_ids(self, content: Content) -> Content:
        """A content with calls, with an id on each of them that no other call of the session has."""
        view = await self._context.view()
        used: set[str] = set()
        parts = []
        for part in content.parts:
            if (call := part.function_call) is not None:
                call_id = call.id or f"{CALL_ID_PREFIX}{uuid.uuid4().hex}"
                if call.id and (NUMBERED_ID.fullmatch(call_id) or call_id in used or view.has_call(call_id)):
                    # OpenAI takes 40 characters, and gives 29.
                    call_id = f"{call_id}-{uuid.uuid4().hex[:10]}"
                used.add(call_id)
                part = msgspec.structs.replace(part, function_call=msgspec.structs.replace(call, id=call_id))
            parts.append(part)
        return Content(role=content.role, parts=parts)

    def _event(self, response: LlmResponse, actions: Actions, call: CallModel, *, has_calls: bool) -> Event:
        event = Event(
            id=call.event_id,
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
        if self._keep_output is not None and event.is_final_response():
            self._keep_output(event, actions)
        elif self._interim is not None:
            self._interim.note(event, actions)
        frozen = actions.freeze()
        if event.long_running_tool_ids:
            confirmations = self._tools.confirmations(event.content)
            frozen = msgspec.structs.replace(frozen, requested_tool_confirmations=confirmations)
        # Nothing else refers to the new object, so its fields can be set: a copy of an event costs as much as the event.
        msgspec.structs.force_setattr(event, "actions", frozen)
        _add_cost(event, call)
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


async def emit_cost(context: Context, call: CallModel, actions: EventActions = NO_ACTIONS) -> None:
    """Store what has come of a call without an answer: what was paid for is in the log, also where it was nothing."""
    has_budget = bool(context.run_config.budgets)
    if actions != NO_ACTIONS or (call.is_answered and (call.usage is not None or has_budget)):
        event = Event(actions=actions)
        _add_cost(event, call)
        await context.emit(event)


def _add_cost(event: Event, call: CallModel) -> None:
    """Add to the new event of a response what its call has used: a callback may have put another one in its place."""
    if not call.is_answered:
        return
    fill = msgspec.structs.force_setattr
    if event.usage is None:
        fill(event, "usage", call.usage)
    fill(event, "model_version", call.model_version)
    fill(event, "duration_s", call.duration_s or None)


def _declared(tools: OwnTools) -> dict[str, FunctionDeclaration]:
    """The tools as models see them, by name, without those that others show them."""
    return {
        name: declaration
        for name, tool in tools.by_name.items()
        if name not in tools.hidden and (declaration := tool.declaration()) is not None
    }


class FailedCalls(RunInterceptor):
    """Has failed model calls counted, with the next event."""

    _failed: Sequence[FailedCall] = ()

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Note the call if its model fails."""
        try:
            return await self.next.call_model(call)
        except BaseException as error:
            if error is call.error:
                model = call.request.model or call.name
                self._failed = (*self._failed, FailedCall(self.run.spec.name, model, type(error).__name__, call.duration_s))
            raise

    def append(self, append: Append) -> Awaitable[Appended]:
        """Add the failed calls to what is stored."""
        if self._failed:
            append, self._failed = msgspec.structs.replace(append, failed_calls=self._failed), ()
        return self.next.append(append)


class EmptyAnswers(RunInterceptor):
    """Repeats calls without an answer, if limits and budgets have room, and gives the last one an error code."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Make the call, and repeat it while its response says nothing."""
        model = call.model
        response = await self.next.call_model(call)
        for _ in range(self.run.spec.limits.empty_answer_retries):
            # Of a node an empty answer is an answer, which goes to the nodes after it.
            is_answer = response.error_code is None and bool(self.run.context.node_path)
            if is_answer or not may_pass(response):
                break
            first = msgspec.structs.replace(call)
            call.event_id, call.model, call.is_optional = new_event_id(), model, True
            call.before = partial(self._store, first, response)
            call.model_version = None
            try:
                response = await self.next.call_model(call)
            except (LlmCallsLimitExceededError, CallLeftOutError):
                call.event_id, call.model_version = first.event_id, first.model_version
                break
        return with_reason(response)

    async def _store(self, call: CallModel, response: LlmResponse) -> None:
        why = response.error_code or model_answer.NO_CONTENT
        logger.warning("model %r gave no answer (%s), and is asked again", call.model_version, why)
        await emit_cost(self.run.context, call)


class CallLimit(RunInterceptor):
    """Counts calls out of the allowance that came with the run, and may ask the Runner for further ones."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Count the call, and make it. Raises LlmCallsLimitExceededError."""
        run, message = self.run, self.run.message
        run.counts["llm_calls"] += 1
        if run.llm_calls < message.llm_calls:
            run.llm_calls += 1
        elif message.asks_for_more:
            await run.runner.ask(TakeLlmCall(turn=message.turn, agent=message.agent))
        else:
            raise LlmCallsLimitExceededError(message.agent, message.config.max_llm_calls)
        return await self.next.call_model(call)


_PASSING = (None, "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
"""The codes of responses without an answer that a second call may do without."""


def may_pass(response: LlmResponse) -> bool:
    """True for a response that says nothing, where the same request may get an answer."""
    return not _has_answer(response) and response.error_code in _PASSING


def with_reason(response: LlmResponse) -> LlmResponse:
    """The response with an error code, if it says nothing."""
    if response.error_code is not None or _has_answer(response):
        return response
    return msgspec.structs.replace(response, error_code=model_answer.NO_CONTENT, error_message="the model returned no content")


def _has_answer(response: LlmResponse) -> bool:
    return response.content is not None and any(not part.thought for part in response.content.parts)
