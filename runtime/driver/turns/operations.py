"""Reports of a turn for those who operate a deployment: what it does, what models were asked in it, and what was logged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.layers.recording.messages import RecordedCall
from runtime.driver.inputs import LimitQuery
from runtime.driver.operation import AppOperation
from runtime.driver.turns.service import TurnsService
from runtime.driver.turns.turn_description import TurnDescription
from runtime.driver.waits import Awaited
from runtime.observability.logs.kept import LogLine


class RequestList(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of a turn, in the order of their answers in the log."""

    calls: Sequence[RecordedCall]


class LogLineList(msgspec.Struct, frozen=True, kw_only=True):
    """What agents have logged and printed in a turn, the oldest first, as far as it is kept."""

    lines: Sequence[LogLine]


async def list_requests(turns: TurnsService[Awaited], query: LimitQuery, user_id: str, session: str, turn: str) -> RequestList:
    """List the model calls of a turn with what was asked: as far as it was recorded. For administrators."""
    return RequestList(calls=await turns.requests(user_id, session, turn, query.limit))


async def describe_turn(turns: TurnsService[Awaited], user_id: str, session: str, turn: str) -> TurnDescription:
    """Describe a turn: what it does or waits for, what has failed, and what each agent has done. For administrators."""
    return await turns.describe(user_id, session, turn)


async def list_log_lines(turns: TurnsService[Awaited], user_id: str, session: str, turn: str) -> LogLineList:
    """List what agents have logged and printed in a turn, as far as the deployment keeps it. For administrators."""
    return LogLineList(lines=await turns.log_lines(user_id, session, turn))


_TURN = "GET /v1/apps/{app}/sessions/{session}/turns/{turn}"

OPERATIONS = [
    AppOperation(f"{_TURN}/description", describe_turn),
    AppOperation(f"{_TURN}/requests", list_requests),
    AppOperation(f"{_TURN}/log", list_log_lines),
]
"""What operators may read of a turn."""
