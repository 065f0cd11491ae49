"""Running the calls of one model response: all at once, answered in one event (semantics.md 5.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actors.behaviours.callbacks import first_result
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, ToolContext
from actors.definitions.tree.spec import AgentSpec
from actors.errors import ActorLostError, FencedError, InvalidIdError, NotEncodableError
from actors.errors.suggestions import did_you_mean
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.messages.codec import decode, encode, flaw, plain, plain_sized
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import NO_ACTIONS, USER, Event, EventActions
from actors.messages.model import FunctionDeclaration
from actors.rules.checks import sizes as limits
from actors.rules.checks import state
from actors.rules.checks.model_answer import MALFORMED


class Answer(msgspec.Struct):
    """What came of one call; `response` None: there is no answer yet. `size`: bytes of it, with the state it changes."""

    call: FunctionCall
    actions: Actions
    response: dict[str, Any] | None
    size: int = 0


class _CallbackFailure(Exception):
    """Carries what a callback raised out of its task, which a SystemExit would not leave alone."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def run_calls(
    spec: AgentSpec,
    tools: Mapping[str, Tool],
    calls: Sequence[FunctionCall],
    tool_context: Callable[[str, Actions], ToolContext],
    decided: Mapping[str, dict[str, Any] | None],
) -> list[Answer]:
    """Run all calls at the same time. One that needs the user's consent is not run before that is given.

    Args:
        spec: the agent, whose hooks are called.
        tools: by name.
        tool_context: makes the context of a call from its id and its actions.
        decided: by id the calls that the user has decided on: how they are answered without being run, or None to run them.

    Returns:
        The answers, in the order of the calls. A call that failed is answered with `{"error": …}`, and so are those whose
        answers are too large to be stored together.

    Raises:
        BaseException: whatever a callback raises.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_answer(spec, tools, call, tool_context, decided)) for call in calls]
    except ExceptionGroup as failures:
        # Only callbacks raise here, and the run fails with what they raised, not with the group around it.
        first = failures.exceptions[0]
        raise first.error if isinstance(first, _CallbackFailure) else first from None
    # A tool may cancel the task it runs in: it has no answer then, and nobody else is concerned.
    answers = [
        Answer(call, Actions(), {"error": f"{call.name} was cancelled by itself"}) if task.cancelled() else task.result()
        for call, task in zip(calls, tasks, strict=True)
    ]
    for index in limits.results_to_drop([answer.size for answer in answers], spec.limits):
        call, size = answers[index].call, answers[index].size
        answers[index] = Answer(call, Actions(), {"error": limits.too_large_text(call.name, size, spec.limits)})
    return answers


async def _answer(
    spec: AgentSpec,
    tools: Mapping[str, Tool],
    call: FunctionCall,
    tool_context: Callable[[str, Actions], ToolContext],
    decided: Mapping[str, dict[str, Any] | None],
) -> Answer:
    try:
        return await _answered(spec, tools, call, tool_context, decided)
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise _CallbackFailure(error) from error


async def _answered(
    spec: AgentSpec,
    tools: Mapping[str, Tool],
    call: FunctionCall,
    tool_context: Callable[[str, Actions], ToolContext],
    decided: Mapping[str, dict[str, Any] | None],
) -> Answer:
    actions = Actions()
    if call.args and MALFORMED in call.args:
        return Answer(call, actions, {"error": f"the arguments of {call.name} are no JSON object: {call.args[MALFORMED]}"})
    tool = tools.get(call.name) or _MissingTool(call.name, _unknown(call.name, tools))
    if tool.require_confirmation:
        answer = decided.get(call.id or "")
        if answer is not None or call.id not in decided:
            return Answer(call, actions, answer)
    context = tool_context(call.id or "", actions)
    try:
        result = await _call(spec, tool, dict(call.args or {}), context)
        if result is None and tool.is_long_running:
            return Answer(call, actions, None)
        told, size = plain_sized(result)
        response = told if isinstance(told, dict) else {"result": told}
        if (wrong := flaw(response, is_finite=True)) is not None:
            raise NotEncodableError(type(result).__name__, wrong)
        return Answer(call, actions, response, size + _settle(actions))
    except (NotEncodableError, InvalidIdError) as error:
        # Nothing of such a call can be stored, its state included: the event would fail as a whole.
        return Answer(call, Actions(), {"error": f"the result of {call.name} cannot be stored: {error_text(error)}"})


def _settle(actions: Actions) -> int:
    """See that what a tool has done besides can be stored, and return its bytes. Raises NotEncodableError, InvalidIdError."""
    if actions.freeze() == NO_ACTIONS:
        return 0
    actions.state_delta = plain(actions.state_delta)
    state.check(actions.state_delta)
    raw = encode(actions.freeze())
    try:
        decode(raw, EventActions)
    except msgspec.DecodeError as error:
        raise NotEncodableError("action", str(error)) from error
    return len(raw)


class _MissingTool(Tool):
    """Stands for a tool that the model made up, so that on_tool_error callbacks may answer for it as well."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def declaration(self) -> FunctionDeclaration:
        raise LookupError(self._reason)

    async def run(self, args: dict[str, Any], context: ToolContext) -> Any:
        raise LookupError(self._reason)


async def _call(spec: AgentSpec, tool: Tool, args: dict[str, Any], context: ToolContext) -> Any:
    result = await first_result(spec.hooks("before_tool_callback"), tool, args, context)
    if result is None:
        try:
            result = await tool.run(args, context)
        except (FencedError, ActorLostError):
            # Not the tool's fault: an agent that it has asked cannot go on here.
            raise
        except BaseException as error:  # A tool is the user's code: whatever it raises, the model is told and goes on.
            if is_cancellation(error):
                raise
            result = await first_result(spec.hooks("on_tool_error_callback"), tool, args, context, error)
            if result is None:
                return {"error": f"{code_of(error)}: {error_text(error)}"}
    replaced = await first_result(spec.hooks("after_tool_callback"), tool, args, context, result)
    return result if replaced is None else replaced


def _unknown(name: str, tools: Mapping[str, Tool]) -> str:
    available = ", ".join(tools) if tools else "none"
    return f"there is no tool {name!r}.{did_you_mean(name, tools)} Available tools: {available}"


def response_event(answers: Sequence[Answer]) -> Event | None:
    """The one event that answers the calls, in their order; None when no call has an answer yet."""
    parts = [
        Part(function_response=FunctionResponse(id=answer.call.id, name=answer.call.name, response=answer.response))
        for answer in answers
        if answer.response is not None
    ]
    actions = Actions()
    for answer in answers:
        actions.merge(answer.actions)
    if not parts and actions.freeze() == NO_ACTIONS:
        return None
    return Event(
        content=Content(role=USER, parts=parts) if parts else None,
        actions=actions.freeze(),
    )
