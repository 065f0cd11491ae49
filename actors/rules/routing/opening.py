"""What happens to a request to open a turn (semantics.md section 2). One table, over what the session and the request are like.

Rules of this file, in the order in which they are tried:

1. The open turn began with the event of the request: the request was sent again because its reply was lost. Resume that turn.
2. The turn asked for is known: join it. So no id ever has two turns.
3. The session is free, or was kept for this request while it waited: begin. So no session ever has two open turns.
4. The Runner that asks does not run the open turn, so no live Runner does: that turn is resumed first, unless it is about to end.
5. `on_concurrent_turn` is "reject": refuse. "interrupt": the open turn is cancelled first. "steer": the open turn is given the
   message, if it can take it. "enqueue": wait.

"interrupt" waits, too: while the Runner cancels the open turn, and while the session is taken without an open turn. Then there is
nothing to cancel; the request goes to the head of the queue, and is decided again should another turn begin before it.
"steer" waits in line while no turn can take its message, and is decided again when one has begun that can.
"""

from __future__ import annotations

import msgspec

from actors.messages.config import OnConcurrentTurn
from actors.messages.protocol.turns import CancelRequired, ResumeRequired


class Free(msgspec.Struct, frozen=True):
    """No turn is open, and nothing keeps one from beginning; or the session was kept for this request, which has waited."""


class Taken(msgspec.Struct, frozen=True):
    """No turn is open, but another turn is about to begin, or the session is being rewound or deleted."""


class Open(msgspec.Struct, frozen=True):
    """A turn is open.

    Attributes:
        invocation_id: the turn.
        is_live: the Runner that asks runs it, or its end is being stored.
        began_with_event: the event that opened it is the event of this request.
        takes_message: it may be given the message of this request.
    """

    invocation_id: str
    is_live: bool
    began_with_event: bool = False
    takes_message: bool = False


SessionUse = Free | Taken | Open
"""What a session is used for when a turn is to be opened."""


class OpeningFacts(msgspec.Struct, frozen=True):
    """All that decides what happens to a request to open a turn.

    Attributes:
        session: what the session is used for.
        known_turn: the turn asked for, if it is open, in the queue, or has ended; "" when it is not known, or is known to be new.
        on_concurrent_turn: see `RunConfig`.
        interrupting: the turn that the Runner cancels for this one; "" for none.
    """

    session: SessionUse
    known_turn: str = ""
    on_concurrent_turn: OnConcurrentTurn = "enqueue"
    interrupting: str = ""


class Begin(msgspec.Struct, frozen=True):
    """Store the user's event; the turn runs."""


class Resume(msgspec.Struct, frozen=True):
    """Give the open turn to the Runner that asks, with a new epoch."""


class Join(msgspec.Struct, frozen=True):
    """Follow the turn that is known. `is_lost`: it is open, but the Runner that asks does not run it and has to resume it."""

    is_lost: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Enter the queue. `at_head`: before all others, since the turn interrupts."""

    at_head: bool = False


class Leave(msgspec.Struct, frozen=True):
    """Leave the message for the turn that is open."""


class Refuse(msgspec.Struct, frozen=True):
    """Raise SessionBusyError. `open_turn`: the turn that is open; "" when none is."""

    open_turn: str = ""


Decision = Begin | Resume | Join | Wait | Leave | Refuse | CancelRequired | ResumeRequired
"""What happens to a request to open a turn. The last two are replies: the Runner does it, then asks again."""


def decide(facts: OpeningFacts) -> Decision:
    """Decide about a request to open a turn: see the rules at the head of this file."""
    match facts.session:
        case Open(began_with_event=True):
            return Resume()
        case Open(invocation_id, is_live) if facts.known_turn:
            return Join(is_lost=not is_live and facts.known_turn == invocation_id)
        case _ if facts.known_turn:
            return Join()
        case Free():
            return Begin()
        case Open(invocation_id, is_live=False):
            return ResumeRequired(invocation_id=invocation_id)
        case Open(takes_message=True) if facts.on_concurrent_turn == "steer":
            return Leave()
        case Open(invocation_id):
            return _beside(facts, invocation_id)
        case Taken():
            return _beside(facts, "")


def _beside(facts: OpeningFacts, open_turn: str) -> Decision:
    """The decision of `on_concurrent_turn`. `open_turn`: "" when the session is taken without one."""
    match facts.on_concurrent_turn:
        case "reject":
            return Refuse(open_turn)
        case "interrupt" if open_turn and open_turn != facts.interrupting:
            return CancelRequired(invocation_id=open_turn)
        case policy:
            return Wait(at_head=policy == "interrupt")
