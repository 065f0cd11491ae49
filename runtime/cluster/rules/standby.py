"""When the standby of an actor takes its place.

A Session actor or a Runner may have two processes. One of them leads; the other one stands by: it has imported everything, and
takes the place of the first when that is lost. Ray starts the lost one again, which then stands by.

Rules of this file:
1. A process that was started again stands by until it knows that the other one does not lead.
2. A lost process leads no more. One that is started in its place may: when the other one has told it that it stands by.
3. Where neither leads the first one takes the place, so never both do.
4. A process that leads and is silent leads on: it may be stopped, or busy. Only one that was never seen leading is given up.
"""

from __future__ import annotations

from enum import Enum

SILENT_S = 10.0
"""How long the other process may be silent before one that has never seen it leading takes the place."""


class Other(Enum):
    """What a process that stands by knows of the other one."""

    LEADS = "it leads"
    STANDS_BY = "it stands by as well"
    LOST = "its process is gone"
    ABSENT = "there is none"
    SILENT = "it does not answer"


class StandbyStep(Enum):
    """What a process that stands by does next."""

    WATCH = "wait for the loss of the other one"
    ASK_AGAIN = "ask the other one again"
    LEAD = "take the place"


def next_step(other: Other, *, is_first: bool, has_seen_leader: bool, has_given_way: bool = False) -> StandbyStep:
    """The next step of a process that stands by.

    Args:
        other: what it knows of the other process.
        is_first: it is the first of the two.
        has_seen_leader: the other one has led since this process was started.
        has_given_way: since it saw the other one leading, it has told a process in the place of that one that it stands by.
    """
    match other:
        case Other.LEADS:
            return StandbyStep.WATCH
        case Other.LOST:
            return StandbyStep.ASK_AGAIN if has_given_way and not is_first else StandbyStep.LEAD
        case Other.STANDS_BY | Other.ABSENT:
            return StandbyStep.LEAD if is_first else StandbyStep.ASK_AGAIN
        case Other.SILENT:
            return StandbyStep.ASK_AGAIN if has_seen_leader else StandbyStep.LEAD


def next_term(seen: int, now_ms: int, *, is_first: bool) -> int:
    """The term of a process that takes the place: later than any before it.

    Args:
        seen: the term of the one before; 0: this process has seen none, since both were lost. Then clocks decide.
        now_ms: the time, in milliseconds since the epoch.
        is_first: terms of the first process are even, and those of the second odd: they never have the same one.
    """
    term = max(seen + 1, now_ms)
    return term if (term % 2 == 0) is is_first else term + 1
