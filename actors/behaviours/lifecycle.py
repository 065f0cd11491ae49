"""What surrounds the run of every agent: before_agent and after_agent callbacks, and the log of failures (semantics.md 5.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from actors.definitions.agents.callbacks import UserCallback
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.context import Actions, CallbackContext, ReadonlyContext
from actors.errors.user_code import UserResult, code_of, error_text, is_cancellation
from actors.interfaces.context import Context, RunContext
from actors.messages.content import Content
from actors.messages.event import Event, new_event_id
from actors.messages.llm import LlmResponse
from actors.messages.protocol.runs import AnyOutcome, Failed, Finished
from actors.rules.checks import model_answer
from actors.rules.routing import resumption

logger = logging.getLogger(__name__)

FAILED = "%s failed in turn %s of session %r of user %r: %s"
"""The message of each record of a failure: the code, the turn, its session and user, and the error."""

_BEFORE, _AFTER = "before-agent-", "after-agent-"
"""They begin the ids of the events that these callbacks leave: after a loss the log says that a callback has spoken."""

KeepOutput = Callable[[Event, Actions], None]
"""Notes what an event says as the agent's output. Raises OutputSchemaError."""


def run_lifecycle(
    spec: AgentSpec, context: Context, body: Callable[[], Coroutine[Any, Any, AnyOutcome]], keep_output: KeepOutput | None = None
) -> Coroutine[Any, Any, AnyOutcome]:
    """Run the callbacks around `body`.

    before_agent is called when the run begins, and not again when it goes on after a pause or a loss. after_agent is called when
    the run is over, and not when it pauses or fails.

    Args:
        keep_output: takes the content that before_agent gives in place of the run.
    """
    return _with_callbacks(spec, context, body, keep_output) if spec.has_run_callbacks or context.done else body()


async def _with_callbacks(
    spec: AgentSpec, context: Context, body: Callable[[], Coroutine[Any, Any, AnyOutcome]], keep_output: KeepOutput | None
) -> AnyOutcome:
    if context.done and any(map(_is_end, context.done)):
        return Finished()
    has_begun = bool(context.resume_at or context.done)
    before = () if has_begun else spec.hooks("before_agent_callback")
    if before and await emit_content_of(before, context, keep_output, _BEFORE):
        return Finished()
    outcome = await body()
    if isinstance(outcome, Finished) and (after := spec.hooks("after_agent_callback")):
        await emit_content_of(after, context, id_prefix=_AFTER)
    return outcome


def known_failure(context: Context) -> Failed | None:
    """The outcome of a run whose failure was stored before its process was lost; None for any other run."""
    last = context.done[-1] if context.done else None
    if last is None or last.seq <= context.retried_seq or not resumption.is_failure(last):
        return None
    return stored_failure(last)


def _is_end(event: Event) -> bool:
    """True for an event with which a run was over: before_agent has answered, or after_agent has been called."""
    return event.id.startswith(_AFTER) or (event.id.startswith(_BEFORE) and event.content is not None)


async def emit_content_of(
    functions: Sequence[UserCallback], context: Context, keep_output: KeepOutput | None = None, id_prefix: str = ""
) -> bool:
    """Call callbacks, and emit what they return or change, in an event whose id begins with `id_prefix`.

    Returns:
        True if one returned content.
    """
    actions = Actions()
    result = await first_result(functions, callback_context(context, actions))
    event_id = f"{id_prefix}{new_event_id()}"
    if result is None:
        if actions.state_delta or actions.artifact_delta:
            await context.emit(Event(id=event_id, actions=actions.freeze()))
        return False
    event = Event(id=event_id, content=as_content(result))
    if keep_output is not None:
        keep_output(event, actions)
    await context.emit(msgspec.structs.replace(event, actions=actions.freeze()))
    return True


async def tell_of_failure(hooks: Sequence[UserCallback], context: CallbackContext, error: BaseException) -> None:
    """Call hooks of plugins for a failure. What they raise is logged: the failure itself is what counts."""
    for hook in hooks:
        try:
            await hook(context, error)
        except BaseException as raised:
            # A plugin is the user's code.
            if is_cancellation(raised):
                raise
            logger.exception("a plugin failed when it was told that agent %r has failed", context.agent_name)


def stored_failure(event: Event) -> Failed:
    """The outcome that the event of a failure tells."""
    return Failed(
        error_code=event.error_code or "",
        error_message=event.error_message or "",
        error_traceback=event.error_traceback or "",
    )


def facts_for_user_code(context: Context) -> dict[str, Any]:
    """The arguments that every context of user code is made with."""
    return {
        "agent_name": context.agent_name,
        "invocation_id": context.invocation_id,
        "log": context.log,
        "branch": context.branch,
        "run_config": context.run_config,
        "user_content": context.user_content,
        "state": context.state,
        "reach": context.reach,
    }


def callback_context(context: Context, actions: Actions) -> CallbackContext:
    """The context of a callback that writes into `actions`."""
    return CallbackContext(artifacts=context.artifacts, actions=actions, **facts_for_user_code(context))


async def first_result(functions: Sequence[UserCallback], *args: object) -> UserResult:
    """Call the functions in order until one returns something other than None, and return that."""
    for function in functions:
        result = await function(*args)
        if result is not None:
            return result
    return None


def as_content(given: object) -> Content:
    """Convert what a callback returned to the content of an event.

    Raises:
        TypeError: it is neither a Content, ours or google-genai's, nor a text.
    """
    if isinstance(given, str):
        return Content.of_text(given, role="model")
    if isinstance(given, Content):
        return given
    if hasattr(given, "parts"):
        return Content.from_genai(given)
    raise TypeError(f"a callback must return a Content, a text or None, not {type(given).__name__}")


def as_response(given: object, model: str) -> LlmResponse:
    """Convert what a callback returned to the response of a model. Raises TypeError like `as_content`, ModelResponseError."""
    response = given if isinstance(given, LlmResponse) else LlmResponse(content=as_content(given))
    return model_answer.checked_response(response, model, logger.warning)


def log_failure(
    logger: logging.Logger, level: int, what: str, run: RunContext | ReadonlyContext, error: BaseException, traceback: str
) -> None:
    """Log that users' code has failed.

    Args:
        what: the code, such as "tool 'pay' of agent 'billing'".
        traceback: stands below the message, as the traceback of an exception does. The exception itself is not handed on: with it
            a formatter would show frames of this project, and some show the values of variables.
    """
    if not logger.isEnabledFor(level):
        return
    where = (run.invocation_id, run.session_id, run.user_id)
    text = f"{code_of(error)}: {error_text(error)}".removesuffix(": ")
    path, line, function, _ = logger.findCaller(stacklevel=2)
    record = logger.makeRecord(logger.name, level, path, line, FAILED, (what, *where, text), None, function)
    record.exc_text = traceback or None
    logger.handle(record)
