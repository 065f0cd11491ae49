"""Whether a deployment that opens a store may take it from the deployment that owned it last.

- An owner renews its lease. After its lease has run out the next deployment takes the store.
- On the machine of the owner its processes are looked at, so a program that was killed holds nothing up.
- A Session actor whose process is gone may be started again by Ray, and a machine elsewhere cannot be looked at. So the lease
  decides: if it is renewed the owner lives, and if it runs out the owner does not.
"""

from __future__ import annotations

from enum import Enum, auto

STUCK_S = 300.0
"""A process that lives, but was stopped or blocked, keeps its store for so long after the end of its lease."""


class Presence(Enum):
    """A process of an owner, as far as it can be seen from here. HERE is the process that looks."""

    HERE = auto()
    LIVES = auto()
    GONE = auto()
    ELSEWHERE = auto()


class Verdict(Enum):
    """What becomes of a deployment that opens a store of another one."""

    TAKE = auto()
    REFUSE = auto()
    WAIT = auto()


def verdict(*, left_s: float, is_renewed: bool, process: Presence, driver: Presence | None, can_restart: bool) -> Verdict:
    """Decide about a store that another deployment has owned.

    Args:
        left_s: how long its lease lasts yet, in seconds; negative after its end.
        is_renewed: it was renewed since the store was looked at first.
        process: the process that renews it.
        driver: the process of the program that started the deployment, which ends with that; None for one that is detached.
        can_restart: `process` would be started again if it were gone.
    """
    if driver is Presence.GONE:
        return Verdict.TAKE
    # A process that looks is not stuck, so a lease of its own that has run out is what a failure has left.
    if (process is Presence.LIVES and left_s > -STUCK_S) or (process is Presence.HERE and left_s > 0):
        return Verdict.REFUSE
    if left_s <= 0 or (process is Presence.GONE and not can_restart):
        return Verdict.TAKE
    return Verdict.REFUSE if is_renewed else Verdict.WAIT
