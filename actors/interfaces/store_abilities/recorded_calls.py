"""What a SessionStore needs besides, so that model calls can be recorded in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from actors.interfaces.records import ModelCallRow
from actors.messages.session import SessionKey


@runtime_checkable
class KeepsModelCalls(Protocol):
    """A store of recorded model calls. It also does `AddModelCall` and `DeleteModelCalls`.

    Calls go with their session, and with the events that are hidden by a rewind. All methods raise StoreUnavailableError and
    StoreError as those of SessionStore do.
    """

    def model_calls(
        self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None = None, limit: int
    ) -> list[ModelCallRow]:
        """The calls of a turn, the one that began first first.

        Args:
            after: only calls after this one, by its `begun_s` and its id.
            limit: at most so many.
        """
        ...

    def model_call_parts(self, key: SessionKey, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Those parts of requests in a session that are there, by digest."""
        ...

    def sessions_with_old_calls(self, app: str, before_s: float, *, limit: int) -> list[SessionKey]:
        """Sessions of an app with calls that began before a time, in seconds since the epoch, in any order.

        Args:
            limit: at most so many.
        """
        ...
