"""Turns: start them and wait, stream or go on; join, list and cancel them; answer the calls at which they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256

import msgspec
from starlette.responses import Response

from actors.errors import InvocationNotFoundError, TurnError
from actors.layers.listing.messages import PendingCall
from actors.messages.protocol.runs import Paused
from actors.messages.turn_info import TurnInfo
from runtime.driver.operation import ID, LimitQuery
from runtime.driver.turns.turn import Turn
from runtime.frontends.web.api.lists import decode_turn, encode_turn, has_text, page_of
from runtime.frontends.web.api.sessions import LAST_EVENT_ID, session_of
from runtime.frontends.web.api.turn_forms import (
    BoardList,
    EdgeList,
    JoinQuery,
    NewAnswers,
    NewTurn,
    PartialsQuery,
    PendingList,
    ReasonList,
    RetryQuery,
    TurnList,
    TurnResultView,
    TurnsQuery,
    TurnView,
    WaitQuery,
    check_error_filter,
    run_config,
)
from runtime.frontends.web.api.waiting import accepted_id, result_of, started_id, unless_left
from runtime.frontends.web.auth import responses_in
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.operation import CLIENT_LEFT, STREAM, Header, HttpOperation
from runtime.frontends.web.problems import BadRequestError, shown, shown_turn
from runtime.frontends.web.streams import EventStream, failed_end, turn_frames


async def start_turn(call: Call) -> Response:
    """Start a turn, and wait for its end. It goes on when the client leaves.

    As a stream: its events. With `Prefer: respond-async`: it is accepted, and where to join it. The same `Idempotency-Key` again
    joins the same turn; with another body it is refused.
    """
    query = call.query(PartialsQuery)
    given = await call.body(NewTurn)
    call.principal.check_state(given.state_delta)
    call.principal.check_message(given.message)
    repeat_key = call.request.headers.get("idempotency-key")
    return await _followed(
        call,
        lambda: call.runtime.run(
            user_id=call.user_id,
            session_id=call.session_id,
            message=given.message,
            run_config=run_config(call, given.config, streams=call.wants_stream() and query.partials),
            state_delta=given.state_delta,
            invocation_id=repeat_key,
            auto_create_session=given.auto_create_session,
            on_leave="continue",
            fingerprint=_fingerprint(given) if repeat_key is not None else "",
        ),
        query.partials,
        answers=any(True for _ in responses_in(given.message)),
    )


def _fingerprint(body: NewTurn) -> str:
    """The same for bodies that mean the same, whatever the order of their fields and the spaces between them."""
    return sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


async def answer_calls(call: Call) -> Response:
    """Answer calls at which a turn waits for a person; the turn goes on. The responses are those of starting a turn."""
    query = call.query(PartialsQuery)
    given = await call.body(NewAnswers)
    for call_id, answer in given.answers.items():
        call.principal.check_answer(call_id, answer)
    waiting = await _pending(call)
    foreign = [call_id for call_id in given.answers if call_id not in {each.call_id for each in waiting}]
    if foreign:
        known = ", ".join(f"{each.call_id!r} ({each.name})" for each in waiting) or "none"
        raise BadRequestError(f"turn {call.invocation_id!r} waits for no answer to {foreign[0]!r}. Calls that wait: {known}")
    return await _followed(
        call,
        lambda: call.runtime.answer(
            given.answers,
            user_id=call.user_id,
            session_id=call.session_id,
            run_config=run_config(call, given.config, streams=call.wants_stream() and query.partials),
            on_leave="continue",
        ),
        query.partials,
    )


async def retry_turn(call: Call) -> Response:
    """Run a failed turn on from its last stored step. The responses are those of starting a turn.

    With `from` any turn that does not run is run again from that event: what came after it is taken back.
    """
    query = call.query(RetryQuery)
    await _info(call)
    return await _followed(
        call,
        lambda: call.runtime.retry(
            user_id=call.user_id,
            session_id=call.session_id,
            invocation_id=call.invocation_id,
            from_event=query.from_event,
            on_leave="continue",
        ),
        query.partials,
    )


async def _followed(call: Call, start: Callable[[], Turn], partials: bool, *, answers: bool = False) -> Response:
    """Start a turn, and respond with it: a stream, its result, or where it can be joined.

    Its place is taken first, so that no turn runs whose client is refused.

    Args:
        answers: its message answers calls: it goes on with a turn whose id is known only when it has begun.
    """
    if call.prefers("respond-async") and not call.wants_stream():
        turn = start()
        invocation_id, headers = await (_begun(call, turn) if _has_turn(call) else _accepted(call, turn, answers=answers))
        turn.detach()
        return json_response({"invocationId": invocation_id}, 202, {**headers, "Preference-Applied": "respond-async"})
    with call.slot() as slot:
        turn, for_operator = start(), call.principal.is_admin
        _, headers = await (_accepted(call, turn, answers=True) if answers else _begun(call, turn))
        if call.wants_stream():
            frames = turn_frames(turn, after_seq=call.last_event_id(), partials=partials, for_operator=for_operator)
            return EventStream(frames, call.served.slots, slot, keep_alive_s=call.served.keep_alive_s, headers=headers)
        result = await unless_left(call, _result(call, turn, for_operator=for_operator))
    if result is None:
        turn.detach()
        return Response(status_code=CLIENT_LEFT)
    return json_response(result, headers=headers)


async def _begun(call: Call, turn: Turn) -> tuple[str, dict[str, str]]:
    """The id of a turn that was started, and the headers that say where it is. Raises why it could not start."""
    # An answer that waits in the line of its session continues the turn in the path.
    invocation_id = await started_id(call, turn) or (call.invocation_id if _has_turn(call) else turn.invocation_id)
    return invocation_id, _headers(call, invocation_id)


async def _accepted(call: Call, turn: Turn, *, answers: bool) -> tuple[str, dict[str, str]]:
    """The same of a turn whose client hears no more of it: it has begun, or waits in line. Raises why it could not start."""
    if answers:
        invocation_id = await turn.aio.started()
    else:
        invocation_id = await accepted_id(call, turn, (call.user_id, call.session_id)) or turn.invocation_id
    return invocation_id, _headers(call, invocation_id)


def _headers(call: Call, invocation_id: str) -> dict[str, str]:
    place = call.url("sessions", call.session_id, "turns", invocation_id)
    return {"Location": place, "Content-Location": f"{place.partition('?')[0]}/events"}


def _has_turn(call: Call) -> bool:
    """True where the turn is in the path: it is answered, or run again."""
    return "turn" in call.request.path_params


async def _result(call: Call, turn: Turn, *, for_operator: bool) -> TurnResultView:
    """Wait for the end of a turn. Raises why it could not start."""
    try:
        result = await result_of(call, turn)
    except TurnError as error:
        end = failed_end(turn.invocation_id, error, for_operator=for_operator)
        return TurnResultView(invocation_id=end.invocation_id, state=end.state, agent=turn.agent, error=end.error)
    paused = isinstance(result.outcome, Paused)
    return TurnResultView(
        invocation_id=result.invocation_id,
        state="paused" if paused else "finished",
        agent=result.agent,
        text=result.text,
        finish_reason=result.finish_reason,
        error_code=result.error_code,
        output=result.output,
        events=[shown(event, for_operator=for_operator) for event in result.events],
        pending=await turn.aio.pending() if paused else (),
    )


async def join_turn(call: Call) -> Response:
    """Follow a turn: a stream of its events after a position, up to its end. The turn goes on when the client leaves."""
    query = call.query(JoinQuery)
    # Before the stream begins: a turn that is missing is a status, and no frame.
    await _info(call)
    after_seq = call.last_event_id(query.after_seq)
    with call.slot() as slot:
        frames = turn_frames(
            attached(call, after_seq), after_seq=after_seq, partials=query.partials, for_operator=call.principal.is_admin
        )
        return EventStream(frames, call.served.slots, slot, keep_alive_s=call.served.keep_alive_s)


def attached(call: Call, after_seq: int = 0) -> Turn:
    """The turn in the path, joined."""
    return call.runtime.attach(
        user_id=call.user_id, session_id=call.session_id, invocation_id=call.invocation_id, after_seq=after_seq
    )


async def get_turn(call: Call) -> TurnView:
    """Where a turn is, and the calls at which it waits for a person."""
    info = await _info(call)
    return TurnView(turn=info, pending=await _pending(call) if info.state == "paused" else ())


async def get_reasons(call: Call) -> ReasonList:
    """Tell for each message of the user in a turn why it went to the agent that got it."""
    return ReasonList(reasons=await call.runtime.aio.turns.why(call.user_id, call.session_id, call.invocation_id))


async def get_edges(call: Call) -> EdgeList:
    """Tell for each edge that graphs have come to in a turn why it was taken, or was not."""
    return EdgeList(edges=await call.runtime.aio.turns.edges(call.user_id, call.session_id, call.invocation_id))


async def get_boards(call: Call) -> BoardList:
    """Read the boards of the flows that a turn has run: tasks, what each needs, who works on it, and its result."""
    return BoardList(boards=await call.runtime.aio.turns.boards(call.user_id, call.session_id, call.invocation_id))


async def get_result(call: Call) -> Response:
    """Answer how a turn ended; 202, with where it is, when it has not ended after the seconds to wait."""
    query = call.query(WaitQuery)
    info = await _info(call)
    is_under_way = info.state in ("waiting", "running")
    if not is_under_way or query.wait:
        with call.slot(), suppress(TimeoutError):
            turn = attached(call)
            async with asyncio.timeout(query.wait if is_under_way else None):
                result = await unless_left(call, _result(call, turn, for_operator=call.principal.is_admin))
            if result is None:
                return Response(status_code=CLIENT_LEFT)
            return json_response(msgspec.structs.replace(result, agent=result.agent or info.agent))
    return json_response(await get_turn(call), 202)


async def _info(call: Call) -> TurnInfo:
    turn = await call.runtime.aio.turns.get(call.user_id, call.session_id, call.invocation_id)
    return shown_turn(turn, for_operator=call.principal.is_admin)


async def _pending(call: Call) -> Sequence[PendingCall]:
    calls = await call.runtime.aio.turns.pending(call.user_id, call.session_id)
    return [each for each in calls if each.invocation_id == call.invocation_id]


async def cancel_turn(call: Call) -> TurnInfo:
    """Cancel a turn, and wait until its log is sealed."""
    before = await _info(call)
    turn = attached(call)
    await turn.aio.cancel()
    turn.detach()
    try:
        return await _info(call)
    except InvocationNotFoundError:
        # It was in the line of its session, and nothing of it is stored.
        return msgspec.structs.replace(before, state="cancelled")


async def list_turns(call: Call) -> TurnList:
    """List the turns of a session, of a user, or with credentials for any user of the whole app."""
    query = call.query(TurnsQuery)
    session_id = call.session_id if "session" in call.request.path_params else None
    user_id = call.user_id if session_id is not None else call.any_user_id
    check_error_filter(call, query.error)
    filters = {name: value for name, value in msgspec.structs.asdict(query).items() if name not in ("q", "limit", "before")}
    listed = partial(call.runtime.aio.turns.list, user_id, session_id, **filters)
    turns, last = await page_of(
        lambda limit, after: listed(limit=limit, before=after),
        query.limit,
        decode_turn(query.before),
        (lambda turn: has_text(query.q, turn.session_id, turn.user_id, turn.invocation_id, turn.agent)) if query.q else None,
    )
    if not turns and session_id is not None:
        await session_of(call)
    return TurnList(turns=[shown_turn(turn, for_operator=call.principal.is_admin) for turn in turns], next=encode_turn(last))


async def list_pending(call: Call) -> PendingList:
    """List the calls that wait for a person, of a user, or with credentials for any user of the whole app."""
    query = call.query(LimitQuery)
    return PendingList(calls=await call.runtime.aio.turns.pending(call.any_user_id, limit=query.limit))


_TURNS = "/v1/apps/{app}/sessions/{session}/turns"
_TURN = f"{_TURNS}/{{turn}}"
_PREFER = Header("Prefer", "`respond-async`: answer when the turn has begun, and do not wait for its end")
_ACCEPTED = (202, "The turn goes on, and can be joined at the `Location`.")
_OTHER_BODY = (422, "The turn of that `Idempotency-Key` began with another body.")
_NOT_ENDED = (202, "The turn has not ended.")
_IDEMPOTENCY = Header("Idempotency-Key", "the id of the turn: the same with the same body joins the same turn", ID)

OPERATIONS = [
    HttpOperation("GET", _TURNS, list_turns, query=TurnsQuery, gives=TurnList),
    HttpOperation(
        "POST",
        _TURNS,
        start_turn,
        query=PartialsQuery,
        body=NewTurn,
        gives=TurnResultView,
        gives_media=[STREAM],
        headers=[_IDEMPOTENCY, _PREFER, LAST_EVENT_ID],
        statuses=[_ACCEPTED, _OTHER_BODY],
    ),
    HttpOperation("GET", _TURN, get_turn, gives=TurnView),
    HttpOperation("GET", f"{_TURN}/reasons", get_reasons, gives=ReasonList),
    HttpOperation("GET", f"{_TURN}/edges", get_edges, gives=EdgeList),
    HttpOperation("GET", f"{_TURN}/boards", get_boards, gives=BoardList),
    HttpOperation("DELETE", _TURN, cancel_turn, gives=TurnInfo),
    HttpOperation("GET", f"{_TURN}/result", get_result, query=WaitQuery, gives=TurnResultView, statuses=[_NOT_ENDED]),
    HttpOperation("GET", f"{_TURN}/events", join_turn, query=JoinQuery, gives_media=[STREAM], headers=[LAST_EVENT_ID]),
    HttpOperation(
        "POST",
        f"{_TURN}/answers",
        answer_calls,
        query=PartialsQuery,
        body=NewAnswers,
        gives=TurnResultView,
        gives_media=[STREAM],
        headers=[_PREFER],
        statuses=[_ACCEPTED],
    ),
    HttpOperation(
        "POST",
        f"{_TURN}/retry",
        retry_turn,
        query=RetryQuery,
        gives=TurnResultView,
        gives_media=[STREAM],
        headers=[_PREFER],
        statuses=[_ACCEPTED],
    ),
    HttpOperation("GET", "/v1/apps/{app}/turns", list_turns, query=TurnsQuery, gives=TurnList, users="any"),
    HttpOperation("GET", "/v1/apps/{app}/pending", list_pending, query=LimitQuery, gives=PendingList, users="any"),
]
"""What can be done with turns."""
