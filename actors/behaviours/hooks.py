"""How user callbacks are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.agents.base import Callback, callbacks
from actors.interfaces.context import Context
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.model import LlmResponse
from actors.tools.context import Actions, CallbackContext


async def first_result(functions: Sequence[Callable[..., Any]], *args: Any) -> Any:
    """Call one function after the other until one returns something other than None, and return that."""
    for function in functions:
        result = await call(function, *args)
        if result is not None:
            return result
    return None


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a sync or async function."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


def where(context: Context) -> dict[str, Any]:
    """Where an agent stands, as the contexts of user code want to know it."""
    return {
        "agent_name": context.agent_name,
        "invocation_id": context.invocation_id,
        "user_id": context.user_id,
        "session_id": context.session_id,
        "user_content": context.user_content,
        "state": context.state,
    }


async def agent_callbacks(
    given: Callback, context: Context, keep: Callable[[Event, Actions], None] = lambda event, actions: None
) -> bool:
    """Run before_agent or after_agent callbacks, and emit what they made.

    Args:
        keep: called with the event before it is emitted, to add to its actions.

    Returns:
        True when they gave content. State alone, without content, is emitted too.
    """
    functions = callbacks(given)
    if not functions:
        return False
    actions = Actions()
    result = await first_result(functions, CallbackContext(artifacts=context.artifacts, actions=actions, **where(context)))
    if result is None:
        if actions.state_delta or actions.artifact_delta:
            await context.emit(Event(actions=actions.freeze()))
        return False
    event = Event(content=as_content(result))
    keep(event, actions)
    await context.emit(msgspec.structs.replace(event, actions=actions.freeze()))
    return True


def as_content(given: Any) -> Content:
    """What a callback returned as the content of an event.

    Raises:
        TypeError: it is neither a Content nor a text.
    """
    if isinstance(given, str):
        return Content.of_text(given, role="model")
    if isinstance(given, Content):
        return given
    if hasattr(given, "parts"):
        return Content.from_genai(given)
    raise TypeError(f"a callback must return a Content, a text or None, not {type(given).__name__}")


def as_response(given: Any) -> LlmResponse:
    """What a callback returned as the response of a model. Raises TypeError like `as_content`."""
    return given if isinstance(given, LlmResponse) else LlmResponse(content=as_content(given))
