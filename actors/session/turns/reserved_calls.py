"""What a turn has reserved for model calls that are under way, once these are over."""

from __future__ import annotations

from collections.abc import Iterable

from actors.messages.event import USER
from actors.session.log.event_scan import EventScan
from actors.session.log.open_turn import SessionTurn


def settle(turn: SessionTurn, run: int, events: Iterable[tuple[bytes, EventScan]]) -> bool:
    """Forget what is reserved for a run, whose model call is over.

    Args:
        events: those of the run, which are about to be stored.

    Returns:
        True if the call was reserved by a Session actor that was lost meanwhile: this one did not count it as under way. The
        record of the turn, which says so, has to be stored.
    """
    if not (turn.reserved or turn.config.budgets):
        return False
    callers = [event.author for _, event in events if event.model_version is not None and event.author != USER]
    is_known = turn.reserved.pop(run, None) is not None or not turn.is_recalled
    if not (callers and turn.config.budgets):
        return False
    if is_known:
        turn.unreserved.pop(callers[-1], None)
    else:
        turn.unreserved[callers[-1]] = None
    return not is_known
