"""Limits of models while they are in use: `rt.limits` and `rt.aio.limits`, `raygrove limits`, and `/v1/apps/{app}/limits`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, UnsetType

from actors.errors import RequestError
from actors.layers.limiter.limits import ModelLimits
from actors.layers.limiter.messages import ChangeModelLimits, GetModelLimits, LimitedModel
from runtime.driver.operation import AppOperation, Command, Option, Table, table
from runtime.driver.waits import Awaited, M, RuntimeService, waits

if TYPE_CHECKING:
    from actors.refs import Ref

_Limit = Annotated[int, msgspec.Meta(gt=0, le=10**12)] | UnsetType | None


def _read_most(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not int(text):
        raise ValueError(f"a limit is a number from 1 on, or 'none' for no limit, not {text!r}")
    return int(text)


def _most(what: str, name: str) -> Option:
    return Option(f"{what}; none: no limit.", name, "N", _read_most)


class LimitChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Limits of a model from now on. What is left out stays as it is.

    Attributes:
        model: its name; or a pattern, as the settings have it.
        max_concurrency: calls at the same time; null: no limit.
        requests_per_minute: calls that begin within any minute; null: no limit.
        tokens_per_minute: tokens that calls use within a minute; null: no limit.
        reset: the limits of the settings hold again, but for those that are given here.
    """

    model: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=512)],
        Option("A model to change, by its name or a pattern of the settings.", is_argument=True),
    ]
    max_concurrency: Annotated[_Limit, _most("Calls at the same time", "--concurrency")] = UNSET
    requests_per_minute: Annotated[_Limit, _most("Calls within a minute", "--per-minute")] = UNSET
    tokens_per_minute: Annotated[_Limit, _most("Tokens within a minute", "--tokens-per-minute")] = UNSET
    reset: Annotated[bool, Option("Have the limits of the settings hold again.", is_flag=True)] = False


class LimitList(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of models, in the order of the settings; then models that have limits of their own only here."""

    limits: Sequence[LimitedModel]


class LimitsService(RuntimeService[M]):
    """Limits of models while they are in use."""

    @waits
    async def list(self) -> Sequence[LimitedModel]:
        """List the limits of models, in the order of the settings; none where no model has limits."""
        limiter = self._client.engine.limiter
        return (await limiter.ask(GetModelLimits())).limits if limiter is not None else []

    @waits
    async def set(self, /, model: str, **limits: float | None) -> LimitedModel:
        """Change limits of a model, at once, also for calls that wait. What is not named stays as it is.

        They hold until the deployment ends, and not for the next one.

        Args:
            model: its name; or a pattern, as the settings have it.
            limits: fields of `ModelLimits`, such as `max_concurrency` or `tokens_per_minute`. None: no limit.

        Raises:
            RequestError: the model had no limits when the deployment started, not even by a pattern.
            DefinitionError: a field is unknown or out of range; the message names it.
            ClusterError: the change cannot be kept. Nothing has changed.
        """
        if not limits:
            raise RequestError(f"give what to change: {', '.join(ModelLimits.model_fields)}")
        # Raises for a wrong name or value before anything is sent.
        ModelLimits(**limits)
        changed = await self._change(model, limits)
        assert changed is not None
        return changed

    @waits
    async def reset(self, model: str) -> LimitedModel | None:
        """Have a model go by the settings again.

        Returns:
            The limits of the settings under that name; None where there are none, and a pattern holds.

        Raises:
            RequestError, ClusterError: see `set`.
        """
        return await self._change(model, None)

    async def _change(self, model: str, change: Mapping[str, float | None] | None) -> LimitedModel | None:
        if not isinstance(model, str) or not model:
            raise RequestError(f"model must be the name of a model, or a pattern such as 'gemini-*', not {model!r}")
        request = ChangeModelLimits(model=model, change=dict(change) if change is not None else None)
        found = (await self._limiter().ask(request)).limits
        return next((each for each in found if each.name == model), None)

    def _limiter(self) -> Ref:
        limiter = self._client.engine.limiter
        if limiter is None:
            raise RequestError(
                f"no model of app {self._client.app_name!r} had limits when it started, so nothing counts their calls: "
                "start it with model_limits, such as RAYGROVE_MODEL_LIMITS='{\"*\": {}}'"
            )
        return limiter


async def list_limits(limits: LimitsService[Awaited]) -> LimitList:
    """List the limits of models, with the calls that run and wait. For administrators."""
    return LimitList(limits=await limits.list())


async def change_limits(limits: LimitsService[Awaited], given: LimitChanges) -> LimitList:
    """Change limits of a model, at once, until the deployment ends. For administrators."""
    changes = {name: getattr(given, name) for name in ("max_concurrency", "requests_per_minute", "tokens_per_minute")}
    changes = {name: value for name, value in changes.items() if value is not UNSET}
    if given.reset:
        await limits.reset(given.model)
    if changes:
        await limits.set(given.model, **changes)
    return LimitList(limits=await limits.list())


def _table(found: LimitList, given: LimitChanges | None) -> Table:
    columns = ("model", "at once", "per minute", "tokens per minute", "from", "running", "waiting")
    return table(found.limits, columns, _cells)


def _cells(of: LimitedModel) -> list[object]:
    most = (of.max_concurrency, of.requests_per_minute, of.tokens_per_minute)
    shown = ["-" if each is None else each for each in most]
    return [of.name, *shown, "operator" if of.changed else "settings", of.running, of.waiting]


_LIST = AppOperation("GET /v1/apps/{app}/limits", list_limits)

OPERATIONS = [
    _LIST,
    AppOperation(
        "PATCH /v1/apps/{app}/limits",
        change_limits,
        # The input is right: the deployment counts no calls of that model.
        refused=404,
        command=Command(
            name="limits",
            help="Show how much is asked of models at most, and with MODEL change it, at once and until the deployment ends.",
            show=_table,
            otherwise=_LIST,
        ),
    ),
]
"""What may be done with limits of models."""
