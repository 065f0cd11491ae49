"""On whose behalf requests come, as the server sees it."""

from __future__ import annotations

import msgspec

from runtime.frontends.web.auth.loopback import LoopbackOnly
from runtime.frontends.web.auth.principal import Principal
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import NotAuthenticatedError


class Me(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the credentials of a request allow.

    Attributes:
        is_known: the server takes them. Without that they allow nothing.
        needs_credentials: without any the server takes no requests.
        user_id: the only user whose data they reach; null: those of any user.
        is_admin: they are an administrator's.
    """

    is_known: bool
    needs_credentials: bool
    user_id: str | None = None
    is_admin: bool = False


async def get_me(call: Call) -> Me:
    """Read what the credentials of this request allow. A client learns so that it has to ask for a token."""
    needs_credentials = not isinstance(call.served.auth, LoopbackOnly)
    try:
        who: Principal = await call.served.auth(call.request)
    except NotAuthenticatedError:
        return Me(is_known=False, needs_credentials=needs_credentials)
    return Me(is_known=True, needs_credentials=needs_credentials, user_id=who.user_id, is_admin=who.is_admin)


OPERATIONS = [HttpOperation("GET", "/v1/me", get_me, gives=Me, is_open=True, users="none")]
"""What clients can ask of themselves."""
