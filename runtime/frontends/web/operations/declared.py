"""Declared operations over HTTP."""

from __future__ import annotations

from typing import Any

from actors.errors import RequestError
from runtime.driver.operation import AppOperation
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import NotFoundError


def http_operation(of: AppOperation) -> HttpOperation:
    """The route of an operation, with its part of the OpenAPI document."""
    reads = of.method == "GET"

    async def handle(call: Call) -> object:
        if of.for_admins:
            call.principal.check_admin()
        given: list[Any] = []
        if of.takes is not None:
            given.append(call.query(of.takes) if reads else await call.body(of.takes))
        named: dict[str, str | None] = {part: call.path(part) for part in of.parts}
        if of.users != "none":
            # A session is one of a user's.
            is_of_one = of.users == "one" or any(getattr(each, "session", None) is not None for each in given)
            named["user_id"] = call.user_id if is_of_one else call.any_user_id
        try:
            return await of.call(call.runtime.aio, *given, **named)
        except RequestError as error:
            if of.refused == 404:
                raise NotFoundError(str(error)) from None
            raise

    handle.__name__, handle.__doc__ = of.run.__name__, of.run.__doc__
    takes: dict[str, Any] = {"query" if reads else "body": of.takes}
    status = 204 if of.gives is None else 200
    return HttpOperation(of.method, of.path, handle, gives=of.gives, status=status, users=of.users, **takes)
