"""Lists over all users, put together from a page of each store.

The pages are of about the same moment: a user who is moved in between may be on those of both stores, and is listed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from actors.messages import protocol as p
from actors.messages.operating.schedule import ScheduleRow
from actors.messages.protocol.sessions import SessionInfo
from actors.messages.turn_info import TurnCounts, TurnInfo


def sessions(pages: Sequence[Sequence[SessionInfo]], limit: int | None) -> list[SessionInfo]:
    """Sessions, the one written last first, at most `limit`."""
    once = {each.key: each for each in chain(*pages)}.values()
    found = sorted(once, key=lambda each: (each.updated_s, each.key.user, each.key.session), reverse=True)
    return found[:limit]


def turns(pages: Sequence[Sequence[TurnInfo]], limit: int) -> list[TurnInfo]:
    """Turns, those in line first, then the one that began last, at most `limit`."""
    once = {(turn.user_id, turn.session_id, turn.invocation_id): turn for turn in chain(*pages)}.values()
    waiting = [turn for turn in once if turn.state == "waiting"]
    others = [turn for turn in once if turn.state != "waiting"]
    others.sort(key=lambda turn: (turn.begun_s, turn.invocation_id), reverse=True)
    return [*waiting, *others][:limit]


def counts(counted: Sequence[TurnCounts]) -> TurnCounts:
    """Their sums."""
    return TurnCounts(
        waiting=sum(each.waiting for each in counted),
        running=sum(each.running for each in counted),
        paused=sum(each.paused for each in counted),
    )


def schedules(pages: Sequence[Sequence[ScheduleRow]], limit: int) -> list[ScheduleRow]:
    """Schedules by user and name, at most `limit`."""
    once = {(row.key, row.name): row for row in chain(*pages)}.values()
    return sorted(once, key=lambda row: (row.key.user, row.name))[:limit]


def pending(pages: Sequence[p.PendingReply]) -> p.PendingReply:
    """Calls that wait, those of the turn that began last first.

    The page ends with the last turn of that store whose page ends first: what others have after it comes with the next one.
    """
    ends = [page.next for page in pages if page.next is not None]
    end = max(ends, default=None)
    found = [
        (begun_s, call)
        for page in pages
        for begun_s, call in zip(page.begun_s, page.calls, strict=True)
        if end is None or (begun_s, call.invocation_id) >= end
    ]
    # Calls of one turn stay in their order.
    found.sort(key=lambda each: (each[0], each[1].invocation_id), reverse=True)
    return p.PendingReply(calls=[call for _, call in found], begun_s=[begun_s for begun_s, _ in found], next=end)
