"""The limits of a model, as operators see and change them."""

from __future__ import annotations

import msgspec

from actors.messages.limits import ModelLimits
from actors.messages.shown import Shown


class LimitedModel(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The limits that hold for a model, or for all models of a pattern, and their calls.

    Attributes:
        name: of the model, or a pattern such as `gemini-*`.
        max_concurrency, requests_per_minute, tokens_per_minute, max_retries, retry_ratio, retry_reserve: see ModelLimits.
        changed: they are not those of the settings.
        running: calls that run now, of models that go by these limits.
        waiting: calls that wait.
    """

    name: str
    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_retries: int = 4
    retry_ratio: float = 0.1
    retry_reserve: int = 10
    changed: bool = False
    running: int = 0
    waiting: int = 0


def limited_model(name: str, limits: ModelLimits, *, changed: bool, running: int, waiting: int) -> LimitedModel:
    """The limits under a name, with figures of their calls."""
    return LimitedModel(name=name, **limits.model_dump(), changed=changed, running=running, waiting=waiting)
