"""Until when a deployment takes no new turns, because it is to be stopped.

Rules of this file:

- It is a lease. The program that drains renews it; when that program is lost, new turns begin again after the lease.
- A lease of 0 s ends it at once.
- What a Runner was asked for before the drain began is not new, also when that Runner was lost and another one is asked again.
"""

from __future__ import annotations

import math

from actors.errors import DrainingError

RETRY_S = 5.0
"""When refused programs may ask again. How long a drain takes and when the next deployment starts is not known, so: soon."""


class DrainLease:
    """The lease, as one actor knows it. It is over at first.

    Attributes:
        since_s: when the drain began, in Unix seconds.
    """

    def __init__(self) -> None:
        self._until_s = -math.inf
        self.since_s = 0.0

    def renew(self, lease_s: float, since_s: float, now_s: float) -> None:
        """Take no new turns for so long from now on."""
        self._until_s = now_s + lease_s if lease_s > 0 else -math.inf
        self.since_s = since_s

    def left_s(self, now_s: float) -> float:
        """For how many seconds yet; 0 when it is over."""
        return max(0.0, self._until_s - now_s)

    def refusal(self, app: str, now_s: float, sent_s: float = 0.0) -> DrainingError | None:
        """Why a turn cannot begin, if it cannot.

        Args:
            sent_s: when it was asked of a Runner that was lost, in Unix seconds; 0: of none.
        """
        is_new = not 0 < sent_s < self.since_s
        return DrainingError(app, RETRY_S) if is_new and self.left_s(now_s) else None
