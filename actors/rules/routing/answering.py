"""Whether a user's answer to a call is taken (semantics.md section 4, "Pauses").

Rules of this file, in the order in which they are tried:

1. A call that waits takes an answer.
2. A request that answers only what waits (`rt.answer`) is refused otherwise.
3. A call that the user has answered while this request was under way or in line takes no second answer: its sender knew of none.
4. Consent, and the answer to a tool's question, are given once, unless the tool asks again.
5. Any other answer is a later value of a long-running call, and reaches its agent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What decides about an answer to a call.

    Attributes:
        is_waiting: its turn is paused, and waits for an answer to it.
        answered_seq: the position of the user's last answer to it; 0 when there is none.
        needed_consent: that answer was consent, or answered a question of its tool.
    """

    is_waiting: bool = False
    answered_seq: int = 0
    needed_consent: bool = False


def is_taken(call: CallFacts, *, only_waiting: bool, known_seq: int) -> bool:
    """True when an answer to the call is taken.

    Args:
        only_waiting: the request answers only what waits.
        known_seq: the log up to here was settled when the request came: what follows belongs to a turn that was open then, or
            that has run since.
    """
    if call.is_waiting:
        return True
    if only_waiting:
        return False
    return not call.answered_seq or (call.answered_seq <= known_seq and not call.needed_consent)
