"""What an LLM agent does: ask the model, run the tools it calls, and again, until it has answered (semantics.md section 5)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec
import pydantic

from actors.behaviours.callbacks import as_response, call, first_result
from actors.behaviours.lifecycle import callback_context, run_lifecycle, where
from actors.behaviours.llm.tool_calls import response_event, run_calls
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext, ToolContext
from actors.definitions.tools.transfer import transfer_tools
from actors.definitions.tree.spec import AgentSpec
from actors.errors import OutputSchemaError
from actors.errors.user_code import is_cancellation
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import Content, FunctionCall, FunctionResponse
from actors.messages.event import NO_ACTIONS, Event, new_event_id
from actors.messages.model import LlmRequest, LlmResponse
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused, Transfer
from actors.rules.checks import confirmation
from actors.rules.checks import model_answer as answers
from actors.rules.checks import user_message as messages
from actors.rules.prompt import instructions

logger = logging.getLogger(__name__)

_SAY_IN_CALLS = ("before_tool_callback", "after_tool_callback", "on_tool_error_callback", "on_event_callback")
"""The hooks that see a call, or its event."""

CALL_ID_PREFIX = "call-"
"""Begins the ids that we give to calls whose model gave them none; they are not sent back to models."""


async def run_llm(spec: AgentSpec, model: Model, context: Context) -> AnyOutcome:
    """One run of an LLM agent, from its turn's message to its final response, a transfer or a pause."""
    return await LlmRun(spec, model, context).run()


class LlmRun:
    """One run of an LLM agent; work in flows is a kind of it."""

    def __init__(self, spec: AgentSpec, model: Model, context: Context) -> None:
        self._agent = cast(LlmAgent, spec.definition)
        self._spec = spec
        self._model = model
        self._context = context
        self._tools: dict[str, Tool] = {tool.name: tool for tool in self._agent.tools}
        if spec.targets:
            self._tools.update((tool.name, tool) for tool in transfer_tools(spec.transfer_menu))

    async def run(self) -> AnyOutcome:
        """The run from its beginning to its end."""
        if self._context.done:
            return await run_lifecycle(self._spec, self._context, self._rest, self._keep_output)
        answered = [response.id for response in self._context.user_content.function_responses()]
        waiting = (await self._context.view()).still_open(answered) if answered else ()
        if waiting:
            return Paused(call_ids=waiting)
        return await run_lifecycle(self._spec, self._context, self._steps, self._keep_output)

    async def _steps(self) -> AnyOutcome:
        outcome = await self._carry_out_decisions()
        while outcome is None:
            outcome = await self._step()
        return outcome

    async def _rest(self) -> AnyOutcome:
        """What is left to do of a run that was lost."""
        outcome = await self._left_off()
        while outcome is None:
            outcome = await self._step()
        return outcome

    async def _left_off(self) -> AnyOutcome | None:
        """Where the run was: what is in the log is not done again; None when the model has to be asked."""
        last = self._context.done[-1]
        asked = next((event for event in reversed(self._context.done) if any(event.function_calls())), None)
        if last.actions.transfer_to_agent is not None:
            return Transfer(to=last.actions.transfer_to_agent, seq=last.seq)
        # A message that came behind it has answered something, here or beside: the run had been paused then.
        was_paused = self._context.user_seq > last.seq
        if asked is not None and (was_paused or asked is not last):
            waiting = (await self._context.view()).still_open([call.id for call in asked.function_calls()])
            if waiting:
                return Paused(call_ids=waiting)
        made = {call.id for event in self._context.done for call in event.function_calls()}
        if was_paused and not made.isdisjoint(messages.answers(self._context.user_content)):
            return await self._carry_out_decisions()
        if asked is last:
            return await self._answered(list(asked.function_calls()))
        return Finished() if last.is_final_response() and last.content is not None else None

    async def _step(self) -> AnyOutcome | None:
        """One answer of the model, and the tools that it calls; None when the model has to be asked again."""
        answer = await self._asked()
        if answer is None:
            return Finished()
        calls = list(answer.function_calls())
        if calls and self._only_decide(calls):
            # Nothing happens by these calls that would have to be in the log before: they and their answers go there in one go.
            return await self._answered(calls, together_with=answer)
        answer = await self._context.emit(answer, is_last=not calls and not self._spec.hooks("after_agent_callback"))
        calls = list(answer.function_calls())
        return await self._answered(calls) if calls else Finished()

    def _only_decide(self, calls: Sequence[FunctionCall]) -> bool:
        """True when the calls have no effect beyond the actions of their event, and nobody else has a say in them."""
        tools = [self._tools.get(made.name) for made in calls]
        return all(tool is not None and tool.only_decides for tool in tools) and not any(map(self._spec.hooks, _SAY_IN_CALLS))

    async def _carry_out_decisions(self) -> AnyOutcome | None:
        """Run the calls to which the user has said yes with this turn's message, and answer those to which he has said no."""
        ids = [response.id for response in self._context.user_content.function_responses()]
        decisions = (await self._context.view()).user_replies(ids) if ids else []
        calls: list[FunctionCall] = []
        decided: dict[str, dict[str, Any] | None] = {}
        for call_made, answer, settled in decisions:
            tool = self._tools.get(call_made.name)
            if tool is not None and tool.require_confirmation:
                calls.append(call_made)
                decided[call_made.id or ""] = _unrun(tool.name, answer.response, settled)
        return await self._answered(calls, decided) if calls else None

    async def _answered(
        self,
        calls: Sequence[FunctionCall],
        decided: Mapping[str, dict[str, Any] | None] | None = None,
        together_with: Event | None = None,
    ) -> AnyOutcome | None:
        """Run the tools; None when the model has to be asked what comes of it."""
        response, pending = await self._run_tools(calls, decided or {}, together_with)
        if response is not None and response.actions.transfer_to_agent:
            return Transfer(to=response.actions.transfer_to_agent, seq=response.seq)
        if pending:
            return Paused(call_ids=pending)
        if response is None or response.actions.skip_summarization:
            return Finished()
        return None

    # ------------------------------------------------------------------------------------------------------- the model
    async def _asked(self) -> Event | None:
        """One model call; the event of its answer is still to be made known. None when the model returned nothing."""
        actions = Actions()
        context = callback_context(self._context, actions)
        request = await self._request(context)
        response = await self._response(request, context)
        if response.content is None and response.error_code is None:
            if actions.freeze() != NO_ACTIONS:
                await self._context.emit(Event(actions=actions.freeze()))
            return None
        return await self._without_large_data(self._finished_event(await self._named(response), actions))

    async def _response(self, request: LlmRequest, context: CallbackContext) -> LlmResponse:
        replaced = await first_result(self._spec.hooks("before_model_callback"), context, request)
        if replaced is not None:
            return self._replacement(replaced)
        await self._context.take_llm_call()
        try:
            response = await self._call_model(request)
        except BaseException as error:  # A model is foreign code: a callback may have an answer for whatever it raises.
            if is_cancellation(error):
                raise
            replaced = await first_result(self._spec.hooks("on_model_error_callback"), context, request, error)
            if replaced is None:
                raise
            response = self._replacement(replaced)
        replaced = await first_result(self._spec.hooks("after_model_callback"), context, response)
        return response if replaced is None else self._replacement(replaced)

    async def _call_model(self, request: LlmRequest) -> LlmResponse:
        whole = LlmResponse()
        async with aclosing(self._model.generate(request, stream=self._context.streaming)) as responses:  # type: ignore[type-var]
            async for response in responses:
                if getattr(response, "partial", False):
                    said = answers.partial_content(response.content, self._model_name, self._spec.limits.max_inline_bytes)
                    await self._context.emit(Event(content=said, partial=True))
                else:
                    whole = response
        return answers.checked_response(whole, self._model_name, logger.warning)

    def _replacement(self, given: Any) -> LlmResponse:
        """What a callback gave in place of an answer."""
        return answers.checked_response(as_response(given), self._model_name, logger.warning)

    @property
    def _model_name(self) -> str:
        return self._spec.model if isinstance(self._spec.model, str) else getattr(self._spec.model, "model", "")

    async def _request(self, context: CallbackContext) -> LlmRequest:
        request = LlmRequest(
            model=self._model_name,
            agent=self._spec.name,
            contents=await self._contents(),
            system_instruction=await self._system_instruction(),
            tools=[tool.declaration() for tool in self._tools.values()],
            config=dict(self._agent.generate_content_config),
            output_schema=self._agent.output_json_schema,
        )
        for tool in self._tools.values():
            await tool.process_request(request, context)
        return request

    async def _contents(self) -> list[Content]:
        return (await self._context.view()).contents(self._agent.include_contents)

    async def _system_instruction(self) -> str:
        return instructions.join(
            [
                await self._instruction(self._spec.global_instruction),
                await self._instruction(self._agent.instruction),
                instructions.identity(self._spec.name, self._agent.description),
                self._spec.transfer_menu.instruction,
            ]
        )

    async def _instruction(self, given: Any) -> str:
        if not given:
            return ""
        if callable(given):
            return str(await call(given, ReadonlyContext(**where(self._context))))
        artifacts = {name: await self._artifact_text(name) for name in instructions.artifact_names(given)}
        return instructions.render(given, self._context.state, artifacts, self._spec.name)

    async def _artifact_text(self, filename: str) -> str | None:
        part = await self._context.artifacts.load(filename)
        if part is None:
            return None
        if part.inline_data is not None:
            return part.inline_data.data.decode(errors="replace")
        return part.text or ""

    async def _named(self, response: LlmResponse) -> LlmResponse:
        """The response with an id on every call that is unique in what the agent sees."""
        content = response.content
        if content is None or not any(content.function_calls()):
            return response
        view = await self._context.view()
        used: set[str] = set()
        parts = []
        for part in content.parts:
            made = part.function_call
            if made is not None and (not made.id or made.id in used or view.has_call(made.id)):
                made = msgspec.structs.replace(made, id=f"{CALL_ID_PREFIX}{uuid.uuid4().hex}")
                part = msgspec.structs.replace(part, function_call=made)
            if made is not None and made.id:
                used.add(made.id)
            parts.append(part)
        return msgspec.structs.replace(response, content=Content(role=content.role, parts=parts))

    def _finished_event(self, response: LlmResponse, actions: Actions) -> Event:
        event = Event(
            content=response.content,
            finish_reason=response.finish_reason,
            error_code=response.error_code,
            error_message=response.error_message,
            usage=response.usage,
            custom_metadata=response.custom_metadata,
            long_running_tool_ids=self._long_running(response.content),
        )
        if event.is_final_response():
            self._keep_output(event, actions)
        return msgspec.structs.replace(event, actions=actions.freeze())

    async def _without_large_data(self, event: Event) -> Event:
        """The event with data that is too large for the log saved as artifacts, and on record."""
        content = event.content
        places = answers.large_data(content.parts, self._spec.limits.max_inline_bytes) if content is not None else []
        if content is None or not places:
            return event
        event_id = new_event_id()
        parts = list(content.parts)
        saved: dict[str, int] = {}
        for index in places:
            filename = messages.artifact_name(event_id, index)
            saved[filename] = await self._context.artifacts.save(filename, parts[index])
            parts[index] = answers.placeholder(filename, parts[index])
        actions = msgspec.structs.replace(event.actions, artifact_delta={**event.actions.artifact_delta, **saved})
        return msgspec.structs.replace(event, id=event_id, content=Content(role=content.role, parts=parts), actions=actions)

    def _long_running(self, content: Content | None) -> tuple[str, ...]:
        calls = content.function_calls() if content is not None else ()
        return tuple(made.id for made in calls if made.id and self._may_wait(made))

    def _may_wait(self, made: FunctionCall) -> bool:
        tool = self._tools.get(made.name)
        return tool is not None and (tool.is_long_running or tool.require_confirmation)

    def _keep_output(self, event: Event, actions: Actions) -> None:
        """Note the answer under `output_key`, as text or as what `output_schema` makes of it."""
        text = event.text
        if not text or any(event.function_calls()):
            return
        value: Any = text
        if self._agent.output_schema is not None:
            try:
                value = self._agent.output_schema.model_validate_json(text).model_dump(mode="json", exclude_none=True)
            except pydantic.ValidationError as error:
                wrong = "; ".join(f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors())
                raise OutputSchemaError(self._spec.name, wrong.removeprefix(": ")) from error
        if self._agent.output_key:
            actions.state_delta[self._agent.output_key] = value

    # ------------------------------------------------------------------------------------------------------- the tools
    async def _run_tools(
        self, calls: Sequence[FunctionCall], decided: Mapping[str, dict[str, Any] | None], together_with: Event | None
    ) -> tuple[Event | None, tuple[str, ...]]:
        """The stored event that answers the calls, if any has an answer; and the ids of those that have none yet.

        Args:
            together_with: the event that makes the calls, when it is not stored yet.
        """
        answers = await run_calls(self._spec, self._tools, calls, self._tool_context, decided)
        event = response_event(answers)
        pending = tuple(answer.call.id or "" for answer in answers if answer.response is None)
        if together_with is not None and event is not None:
            return await self._context.emit_both(together_with, event), pending
        return (await self._context.emit(event) if event is not None else None), pending

    # ----------------------------------------------------------------------------------------------- what callbacks get
    def _tool_context(self, call_id: str, actions: Actions) -> ToolContext:
        context = self._context
        return ToolContext(
            function_call_id=call_id,
            ask=context.ask_agent,
            offload=context.offload,
            artifacts=context.artifacts,
            memory=context.memory,
            actions=actions,
            **where(context),
        )


def _unrun(tool: str, answer: dict[str, Any], settled: FunctionResponse | None) -> dict[str, Any] | None:
    """How a call is answered without being run; None when it is to be run."""
    if settled is not None:
        # Whoever says yes again gets what came of the first yes: the tool is run once.
        return settled.response
    refused = confirmation.refusal(tool, answer)
    return {"error": refused} if refused is not None else None
