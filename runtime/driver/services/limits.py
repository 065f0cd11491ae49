"""The limits service: `rt.limits` and `rt.aio.limits`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.errors import RequestError
from actors.messages.limits import ModelLimits
from actors.messages.operating.limited_model import LimitedModel
from actors.refs.limiter import LimiterRef
from runtime.driver.waits import M, RuntimeService, waits


class LimitsService(RuntimeService[M]):
    """Limits of models while they are in use."""

    @waits
    async def list(self) -> Sequence[LimitedModel]:
        """List the limits of models, in the order of the settings; none where no model has limits."""
        limiter = self._client.engine.limiter
        return list(await limiter.limits()) if limiter is not None else []

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
