"""What a turn does, what models were asked in it, and what its agents logged, for those who operate the server."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.llm.recorded import RecordedCall
from actors.messages.operating.log_line import LogLine
from actors.messages.operating.turn_description import TurnDescription
from runtime.frontends.web.api.turn_forms import LimitQuery
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation


class RequestList(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of a turn, in the order of their answers in the log."""

    calls: Sequence[RecordedCall]


class LogLineList(msgspec.Struct, frozen=True, kw_only=True):
    """What agents have logged and printed in a turn, the oldest first, as far as it is kept."""

    lines: Sequence[LogLine]


async def list_requests(call: Call) -> RequestList:
    """List the model calls of a turn with what was asked: as far as it was recorded. For administrators."""
    call.principal.check_admin()
    limit = call.query(LimitQuery).limit
    found = await call.runtime.aio.turns.requests(call.user_id, call.session_id, call.invocation_id, limit)
    return RequestList(calls=found)


async def describe_turn(call: Call) -> TurnDescription:
    """Describe a turn: what it does or waits for, what has failed, and what each agent has done. For administrators."""
    call.principal.check_admin()
    return await call.runtime.aio.turns.describe(call.user_id, call.session_id, call.invocation_id)


async def list_log_lines(call: Call) -> LogLineList:
    """List what agents have logged and printed in a turn, as far as the deployment keeps it. For administrators."""
    call.principal.check_admin()
    return LogLineList(lines=await call.runtime.aio.turns.log_lines(call.user_id, call.session_id, call.invocation_id))


_TURN = "/v1/apps/{app}/sessions/{session}/turns/{turn}"

OPERATIONS = [
    HttpOperation("GET", f"{_TURN}/description", describe_turn, gives=TurnDescription),
    HttpOperation(
        "GET",
        f"{_TURN}/requests",
        list_requests,
        query=LimitQuery,
        gives=RequestList,
    ),
    HttpOperation("GET", f"{_TURN}/log", list_log_lines, gives=LogLineList),
]
"""What operators can read of a turn."""
