"""The limits service: `rt.limits` and `rt.aio.limits` have the same methods."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from actors.errors import RequestError
from actors.errors.calls import explains_all_wrong_calls
from actors.messages.limits import ModelLimits
from actors.messages.operating.limited_model import LimitedModel
from actors.refs.limiter import LimiterRef
from runtime.driver.engine_client import EngineClient

Limits = list[LimitedModel]
"""Limits; the services have a method `list`."""


@explains_all_wrong_calls
class _Limits:
    """The requests to the actor that limits models, as coroutines for the portal's loop."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def _list(self) -> Limits:
        limiter = self._client.engine.limiter
        return list(await limiter.limits()) if limiter is not None else []

    async def _change(self, model: str, change: dict[str, float | None] | None) -> LimitedModel | None:
        if not isinstance(model, str) or not model:
            raise RequestError(f"model must be the name of a model, or a pattern such as 'gemini-*', not {model!r}")
        if change is not None:
            if not change:
                raise RequestError(f"give what to change: {', '.join(ModelLimits.model_fields)}")
            # Raises for a wrong name or value before anything is sent.
            ModelLimits(**change)
        found = await self._limiter().change_limits(model, change)
        return next((each for each in found if each.name == model), None)

    def _limiter(self) -> LimiterRef:
        limiter = self._client.engine.limiter
        if limiter is None:
            raise RequestError(
                f"no model of app {self._client.app_name!r} had limits when it started, so nothing counts their calls: "
                "start it with model_limits, such as RAYGROVE_MODEL_LIMITS='{\"*\": {}}'"
            )
        return limiter


@explains_all_wrong_calls
class LimitsService(_Limits):
    """Limits of models while they are in use: `rt.limits`."""

    def list(self) -> Sequence[LimitedModel]:
        """List the limits of models, in the order of the settings; none where no model has limits."""
        return self._client.run(self._list())

    def set(self, model: str, **limits: float | None) -> LimitedModel:
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
        return self._client.run(_set(self._change(model, limits)))

    def reset(self, model: str) -> LimitedModel | None:
        """Have a model go by the settings again.

        Returns:
            The limits of the settings under that name; None where there are none, and a pattern holds.

        Raises:
            RequestError, ClusterError: see `set`.
        """
        return self._client.run(self._change(model, None))


@explains_all_wrong_calls
class AsyncLimitsService(_Limits):
    """Limits of models, for callers on an event loop: `rt.aio.limits`. See LimitsService."""

    async def list(self) -> Sequence[LimitedModel]:
        """List the limits of models."""
        return await self._client.run_async(self._list())

    async def set(self, model: str, **limits: float | None) -> LimitedModel:
        """Change limits of a model."""
        return await self._client.run_async(_set(self._change(model, limits)))

    async def reset(self, model: str) -> LimitedModel | None:
        """Have a model go by the settings again."""
        return await self._client.run_async(self._change(model, None))


async def _set(changing: Coroutine[Any, Any, LimitedModel | None]) -> LimitedModel:
    changed = await changing
    assert changed is not None
    return changed
