"""Until when a deployment takes no new turns, because it is to be stopped.

Rules of this file:

- It is a lease. The program that drains renews it; when that program is lost, new turns begin again after the lease.
- A lease of 0 s ends it at once.
"""

from __future__ import annotations

import math

from actors.errors import DrainingError

RETRY_S = 5.0
"""When refused programs may ask again. How long a drain takes and when the next deployment starts is not known, so: soon."""


class DrainLease:
    """The lease, as one actor knows it. It is over at first."""

    def __init__(self) -> None:
        self._until_s = -math.inf

    def renew(self, lease_s: float, now_s: float) -> None:
        """Take no new turns for so long from now on."""
        self._until_s = now_s + lease_s if lease_s > 0 else -math.inf

    def left_s(self, now_s: float) -> float:
        """For how many seconds yet; 0 when it is over."""
        return max(0.0, self._until_s - now_s)

    def refusal(self, app: str, now_s: float) -> DrainingError | None:
        """Why a new turn cannot begin, if it cannot."""
        return DrainingError(app, RETRY_S) if self.left_s(now_s) else None
