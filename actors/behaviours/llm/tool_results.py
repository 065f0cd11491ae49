"""What has come of the tool calls of one model response, and the one event that says so (semantics.md 5.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

import msgspec

from actors.definitions.tools.context import Actions
from actors.errors import TooLargeError
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import NO_ACTIONS, USER, Event
from actors.messages.json_types import JsonObject
from actors.messages.protocol.outcomes import Paused


class ToolResult(msgspec.Struct):
    """What came of one call.

    Attributes:
        actions: what the tool has done besides.
        response: None if there is none yet.
        size: bytes of the response, and of the state that it changes.
        duration_s: how long the tool took; 0 for one that was not run, and for an agent, whose own events say so.
        waits: for what an agent waits that works for the call; None for any other call.
        shown: the response as a text for users, if it is the agent's answer.
    """

    call: FunctionCall
    actions: Actions
    response: JsonObject | None
    size: int = 0
    shown: str = ""
    duration_s: float = 0.0
    waits: Paused | None = None


def response_event(results: Sequence[ToolResult]) -> Event | None:
    """The one event with the responses, in the order of the calls; None if no call has a response yet."""
    parts = [
        Part(function_response=FunctionResponse(id=result.call.id, name=result.call.name, response=result.response))
        for result in results
        if result.response is not None
    ]
    parts += [Part(text=result.shown) for result in results if result.shown]
    actions = Actions()
    for result in results:
        actions.merge(result.actions)
    if not parts and actions.freeze() == NO_ACTIONS:
        return None
    return Event(
        content=Content(role=USER, parts=parts) if parts else None,
        actions=actions.freeze(),
        # They ran at the same time.
        duration_s=max(result.duration_s for result in results) or None,
    )


async def store_responses(
    results: Sequence[ToolResult], store: Callable[[Event], Awaitable[Event]]
) -> tuple[Sequence[ToolResult], Event | None]:
    """Store the one event with the responses. Calls whose changes of state are too large are answered with that error instead.

    Args:
        store: stores the event.

    Returns:
        The results as they are stored, and the event; None if no call has a response yet.

    Raises:
        TooLargeError: the event is too large without those changes, too.
    """
    event = response_event(results)
    if event is None:
        return results, None
    try:
        return results, await store(event)
    except TooLargeError as error:
        # Only the Session actor knows how large a state is with all that others have written into it.
        told = [_without_state(result, error) for result in results]
        event = response_event(told)
        if event is None or not any(result.actions.state_delta for result in results):
            raise
        return told, await store(event)


def _without_state(result: ToolResult, error: TooLargeError) -> ToolResult:
    if not result.actions.state_delta:
        return result
    return ToolResult(result.call, Actions(), {"error": f"what {result.call.name} has set cannot be stored: {error}"})


def pause_of(results: Sequence[ToolResult]) -> Paused | None:
    """For what the user's answer is needed before all calls have a response; None when all have."""
    pending = [result for result in results if result.response is None]
    if not pending:
        return None
    ids = [result.waits.call_ids if result.waits is not None else (result.call.id or "",) for result in pending]
    awaits = (result.waits.awaits for result in pending if result.waits is not None and result.waits.awaits)
    return Paused(call_ids=tuple(chain.from_iterable(ids)), awaits=next(awaits, ""))
