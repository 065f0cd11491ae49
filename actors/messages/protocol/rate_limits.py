"""Permits for model calls: agents' processes to the limiter."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.operating.limited_model import LimitedModel
from actors.messages.operating.turn_description import ModelWait
from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Request
from actors.messages.session import SessionKey


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
    """Ask which model calls of a session wait. The reply is WaitingCallsReply."""

    session: SessionKey


class ModelLimitsReply(Message, frozen=True, kw_only=True):
    """The limits of models."""

    limits: Sequence[LimitedModel] = ()


class GetModelLimits(Request[ModelLimitsReply], frozen=True, kw_only=True):
    """Ask which limits models have. The reply is ModelLimitsReply."""


class ChangeModelLimits(Request[ModelLimitsReply], frozen=True, kw_only=True):
    """Change the limits of a model or of a pattern. The reply is ModelLimitsReply.

    Attributes:
        change: fields of ModelLimits by name; None: those of the settings hold again.
    """

    model: str
    change: dict[str, float | None] | None = None
