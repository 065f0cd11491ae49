"""ADK's `/run` and `/run_sse`: turns, whose clients may leave without cancelling them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response

from actors.errors import ClusterError, RaygroveError, TurnError
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from runtime.driver.turns.turn import Turn
from runtime.frontends.web.adk.checkpoints import Checkpoints
from runtime.frontends.web.adk.events import AdkEvents, adk_events, answered, frames_of, has_answers
from runtime.frontends.web.adk.forms import RunAgentRequest, body_of
from runtime.frontends.web.api.turn_options import TurnOptions, run_config
from runtime.frontends.web.api.waiting import result_of, started_id, unless_left
from runtime.frontends.web.operations.call import Call, json_response
from runtime.frontends.web.operations.operation import CLIENT_LEFT, STREAM, HttpOperation
from runtime.frontends.web.problems import HttpError, problem_of
from runtime.frontends.web.redaction import log_failed_turn
from runtime.frontends.web.streams.frames import frame
from runtime.frontends.web.streams.response import EventStream


async def run(call: Call) -> Response:
    """Run a turn, and answer with its events."""
    given = await body_of(call, RunAgentRequest)
    with call.slot():
        turn = await _turn(call, given, streams=False)
        result = await unless_left(call, result_of(call, turn))
    if result is None:
        turn.detach()
        return Response(status_code=CLIENT_LEFT)
    checkpoints = await _checkpoints(call, given)
    if result.events:
        await _catch_up(call, given, checkpoints, result.events[0])
    options = {"for_operator": call.principal.is_admin, "checkpoints": checkpoints, "custom_metadata": given.custom_metadata}
    return json_response(adk_events(result.events, is_over=True, **options))


async def run_sse(call: Call) -> Response:
    """Run a turn, and stream its events."""
    given = await body_of(call, RunAgentRequest)
    with call.slot() as slot:
        turn = await _turn(call, given, streams=given.streaming)
        await started_id(call, turn)
        frames = _frames(call, given, turn)
        return EventStream(frames, call.served.slots, slot, keep_alive_s=call.served.keep_alive_s)


async def _turn(call: Call, given: RunAgentRequest, *, streams: bool) -> Turn:
    user_id = call.principal.check_user(given.user_id)
    runtime = call.served.runtime(given.app_name)
    if given.new_message is None:
        if given.invocation_id is None:
            raise HttpError(422, "newMessage is missing")
        turn = await runtime.aio.turns.get(user_id, given.session_id, given.invocation_id)
        place: dict[str, Any] = {"user_id": user_id, "session_id": given.session_id, "invocation_id": given.invocation_id}
        # As ADK's Runner does: what has failed is run on, and what has not is joined.
        return runtime.retry(**place, on_leave="continue") if turn.state == "failed" else runtime.attach(**place)
    call.principal.check_state(given.state_delta)
    call.principal.check_message(given.new_message)
    message, is_answer = given.new_message, has_answers(given.new_message)
    if is_answer:
        # The session has to be there: an answer needs a call.
        message = answered(message, await runtime.aio.turns.pending(user_id, given.session_id))
    options = TurnOptions(custom_metadata=given.custom_metadata, on_concurrent_turn=given.on_concurrent_turn)
    return runtime.run(
        user_id=user_id,
        session_id=given.session_id,
        message=message,
        run_config=run_config(call, options, streams=streams),
        state_delta=given.state_delta,
        # An answer goes on with the turn that made the call, whatever id the client names.
        invocation_id=given.invocation_id if not is_answer else None,
        on_leave="continue",
    )


async def _checkpoints(call: Call, given: RunAgentRequest) -> Checkpoints | None:
    """Derives the checkpoints of a turn; None where the App is not resumable."""
    topology = await call.served.runtime(given.app_name).aio.topology()
    return Checkpoints(topology) if topology.root.is_resumable else None


async def _catch_up(call: Call, given: RunAgentRequest, checkpoints: Checkpoints | None, first: Event) -> None:
    """Of a turn that an answer continues the checkpoints go on from what stands before its first new event."""
    if checkpoints is None or given.new_message is None or not has_answers(given.new_message):
        return
    aio, place = call.served.runtime(given.app_name).aio, (given.user_id, given.session_id)
    after_seq = (await aio.turns.get(*place, first.invocation_id)).first_seq - 1
    while page := await aio.sessions.events(*place, after_seq=after_seq, before_seq=first.seq):
        checkpoints.pass_over(event for event in page if event.invocation_id == first.invocation_id)
        after_seq = page[-1].seq


async def _frames(call: Call, given: RunAgentRequest, turn: Turn) -> AsyncIterator[bytes]:
    splits, for_operator = given.function_call_event_id is None, call.principal.is_admin
    checkpoints = await _checkpoints(call, given)
    view = AdkEvents(for_operator=for_operator, checkpoints=checkpoints, custom_metadata=given.custom_metadata)
    last_seq = 0
    try:
        async with aclosing(aiter(turn)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.seq and not last_seq:
                    await _catch_up(call, given, checkpoints, event)
                last_seq = event.seq or last_seq
                for shown in view.shown(event):
                    for each in frames_of(shown, splits=splits):
                        yield frame("", each, event.seq)
        for shown in view.ended():
            yield frame("", shown, last_seq)
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("", _error(turn, error, for_operator=for_operator))
    finally:
        turn.detach()


def _error(turn: Turn, error: RaygroveError, *, for_operator: bool) -> JsonObject:
    if isinstance(error, TurnError):
        log_failed_turn(turn.invocation_id, str(error))
    problem = problem_of(error, for_operator=for_operator)
    details = {"error_type": problem.type, "error_message": problem.detail, "timestamp": time.time()}
    return {"error": f"{problem.type}: {problem.detail}", "error_details": details}


OPERATIONS = [
    HttpOperation("POST", "/run", run),
    HttpOperation("POST", "/run_sse", run_sse, gives_media=[STREAM]),
]
"""ADK's paths of turns."""
