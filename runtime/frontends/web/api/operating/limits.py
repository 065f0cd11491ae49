"""Limits of models, while they are in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from actors.errors import RequestError
from actors.messages.operating.limited_model import LimitedModel
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import NotFoundError

_Most = Annotated[int, msgspec.Meta(gt=0, le=10**12)] | UnsetType | None


class LimitChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Limits of a model from now on. What is left out stays as it is.

    Attributes:
        model: its name; or a pattern, as the settings have it.
        max_concurrency: calls at the same time; null: no limit.
        requests_per_minute: calls that begin within any minute; null: no limit.
        tokens_per_minute: tokens that calls use within a minute; null: no limit.
        reset: the limits of the settings hold again, but for those that are given here.
    """

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    max_concurrency: _Most = UNSET
    requests_per_minute: _Most = UNSET
    tokens_per_minute: _Most = UNSET
    reset: bool = False


class LimitList(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of models, in the order of the settings; then models that have limits of their own only here."""

    limits: Sequence[LimitedModel]


async def list_limits(call: Call) -> LimitList:
    """List the limits of models, with the calls that run and wait. For administrators."""
    call.principal.check_admin()
    return LimitList(limits=await call.runtime.aio.limits.list())


async def change_limits(call: Call) -> LimitList:
    """Change limits of a model, at once, until the deployment ends. For administrators."""
    call.principal.check_admin()
    given, limits = await call.body(LimitChanges), call.runtime.aio.limits
    changes = {name: getattr(given, name) for name in ("max_concurrency", "requests_per_minute", "tokens_per_minute")}
    changes = {name: value for name, value in changes.items() if value is not UNSET}
    try:
        if given.reset:
            await limits.reset(given.model)
        if changes:
            await limits.set(given.model, **changes)
    except RequestError as error:
        # What the body says is right: the deployment counts no calls of that model.
        raise NotFoundError(str(error)) from None
    return LimitList(limits=await limits.list())


_LIMITS = "/v1/apps/{app}/limits"

OPERATIONS = [
    HttpOperation("GET", _LIMITS, list_limits, gives=LimitList, users="none"),
    HttpOperation("PATCH", _LIMITS, change_limits, body=LimitChanges, gives=LimitList, users="none"),
]
"""What can be asked about limits of models."""
