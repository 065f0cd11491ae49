"""What models were asked in a turn, for those who operate the server: requests have instructions and what tools gave."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.llm.recorded import RecordedCall
from runtime.frontends.web.api.turn_forms import LimitQuery
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation


class RequestList(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of a turn that were recorded, the one that began first first."""

    calls: Sequence[RecordedCall]


async def list_requests(call: Call) -> RequestList:
    """List the model calls of a turn with what was asked, as far as they were recorded. For administrators."""
    call.principal.check_admin()
    limit = call.query(LimitQuery).limit
    found = await call.runtime.aio.turns.requests(call.user_id, call.session_id, call.invocation_id, limit)
    return RequestList(calls=found)


OPERATIONS = [
    HttpOperation(
        "GET",
        "/v1/apps/{app}/sessions/{session}/turns/{turn}/requests",
        list_requests,
        query=LimitQuery,
        gives=RequestList,
    )
]
"""What can be read of model calls."""
