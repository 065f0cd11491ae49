"""Permits for model calls: agents' processes to the limiter."""

from __future__ import annotations

from actors.messages.protocol.base import Message
from actors.messages.session import SessionKey


# ------------------------------------------------------------------------------------------------- driver -> anybody
class AcquirePermit(Message, frozen=True, kw_only=True):
    """Wait until a call of a limited model may begin, or be repeated.

    Attributes:
        permit: what the call is known by, made by whoever makes it.
        holder: the process that makes it.
        session: whose call it is: sessions have their turns one after the other.
        attempt: how many attempts have failed; 0 when it begins.
        status, retry_after_s: how the last has failed, see `actors.rules.capacity.rate_limiter.Trouble`.
    """

    permit: str
    holder: str
    model: str
    session: SessionKey
    attempt: int = 0
    status: int | None = None
    retry_after_s: float | None = None


class PermitReply(Message, frozen=True):
    """Whether a call may be made."""

    granted: bool


class ReleasePermit(Message, frozen=True, kw_only=True):
    """A call is over, after so many tokens; or nobody waits for it any more. `answered`: the service has answered it."""

    permit: str
    tokens: int = 0
    answered: bool = False


class RenewPermits(Message, frozen=True, kw_only=True):
    """A process lives. `held`: its calls that are under way, by permit, each with its model."""

    holder: str
    held: dict[str, str]
