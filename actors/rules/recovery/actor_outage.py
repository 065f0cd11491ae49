"""How long a request waits for an actor whose process was lost and is started again.

- Patience is with one absence, not with a request: a request may lie with an actor for hours, and see it go several times.
- A try that lasted longer than it takes to learn that an actor is away was with a living one, so its end begins another absence.
- A request whose tries all end sooner may be what ends the actor: its patience is never renewed.
"""

from __future__ import annotations

LIVED_S = 5.0
"""A try that lasted longer was with a living actor. Ray takes 2 s to say of an actor that it is away."""


def away_since_s(since_s: float | None, *, sent_s: float, now_s: float) -> float:
    """Since when an actor is away, after a try has failed.

    Args:
        since_s: since when it was away before that try; None when the try was the first.
        sent_s: when the try was sent.
    """
    return now_s if since_s is None or now_s - sent_s > LIVED_S else since_s
