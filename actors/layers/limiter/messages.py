"""Permits for model calls: agents' processes to the limiter."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.layers.limiter.limits import ModelLimits
from actors.messages.protocol.base import Ack, Message, Request
from actors.messages.session import SessionKey
from actors.messages.shown import Shown


class ModelWait(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model call that waits for the limits of its model.

    Attributes:
        model: the model.
        before: how many other calls begin before it, as things are; 0 for the next one, and while it waits to be repeated.
        running: calls of the model that run.
        waiting_s: how long it waits, in seconds.
        failed_attempts: how often it has failed before; it waits to be repeated.
        repeats_in_s: seconds until it may be repeated at the earliest; 0: it waits for nothing but its place.
    """

    model: str
    before: int = 0
    running: int = 0
    waiting_s: float = 0.0
    failed_attempts: int = 0
    repeats_in_s: float = 0.0


class PermitReply(Message, frozen=True):
    """Whether a call may be made.

    Attributes:
        again: ask again: the call has lost its place in the queue, since its process was not heard of for so long.
    """

    granted: bool
    again: bool = False


class AcquirePermit(Request[PermitReply], frozen=True, kw_only=True):
    """Wait until a call of a limited model may begin, or be repeated.

    Attributes:
        permit: an id that the caller has made for the call.
        holder: the caller's process.
        session: whose call it is: users who wait take turns, and so do the sessions of each.
        attempt: how many attempts of the call have failed; 0 when it begins.
        status, retry_after_s: how the last attempt has failed: see `actors.layers.limiter.rate_limiter.FailedAttempt`.
    """

    permit: str
    holder: str
    model: str
    session: SessionKey
    attempt: int = 0
    status: int | None = None
    retry_after_s: float | None = None


class ReleasePermit(Request[Ack], frozen=True, kw_only=True):
    """End a call, or give up waiting for its permit.

    Attributes:
        tokens: what the call has used.
        answered: the service has responded.
    """

    permit: str
    tokens: int = 0
    answered: bool = False


class RenewPermits(Request[Ack], frozen=True, kw_only=True):
    """Renew the lease of a process. `held`: the models of its running calls, by permit."""

    holder: str
    held: dict[str, str]


class WaitingCallsReply(Message, frozen=True, kw_only=True):
    """The calls that wait, in the order in which they came."""

    calls: Sequence[ModelWait] = ()


class GetWaitingCalls(Request[WaitingCallsReply], frozen=True, kw_only=True):
    """Ask which model calls of a session wait."""

    session: SessionKey


class ModelLimitsReply(Message, frozen=True, kw_only=True):
    """The limits of models."""

    limits: Sequence[LimitedModel] = ()


class GetModelLimits(Request[ModelLimitsReply], frozen=True, kw_only=True):
    """Ask which limits models have."""


class ChangeModelLimits(Request[ModelLimitsReply], frozen=True, kw_only=True):
    """Change the limits of a model or of a pattern.

    Attributes:
        change: fields of ModelLimits by name; None: those of the settings hold again.
    """

    model: str
    change: dict[str, float | None] | None = None


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
