"""What was used, and what it costs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from actors.messages.operating.usage import UsageBy, UsageReport
from runtime.frontends.web.ids import MAX_NUMBER, Id
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import BadRequestError


class UsageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose usage, and by what it is listed; `turn` goes with `session`, `since` is in seconds since the epoch."""

    session: Id | None = None
    turn: Id | None = None
    since: Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None = None
    by: UsageBy | None = None


async def get_usage(call: Call) -> UsageReport:
    """Add up what the turns of a user have used, or with credentials for any user those of the whole app."""
    query = call.query(UsageQuery)
    if query.turn is not None and query.session is None:
        raise BadRequestError("turn names a turn of a session: give session, too")
    # A session is one of a user's.
    user_id = call.user_id if query.session is not None else call.any_user_id
    return await call.runtime.aio.usage(user_id, query.session, query.turn, since=query.since, by=query.by)


OPERATIONS = [
    HttpOperation("GET", "/v1/apps/{app}/usage", get_usage, query=UsageQuery, gives=UsageReport, users="any"),
]
"""What can be asked about usage."""
