"""Finds the turns, and the calls that wait, which fit a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from actors.errors import RequestError
from actors.layers.listing.client import list_turns
from actors.layers.listing.messages import TURN_STATES, ListPending, ListTurns, PendingCall, PendingReply, TurnMatch
from actors.messages.event import now_s
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.ids import checked_id
from runtime.driver.arguments import checked_age, checked_choice, checked_number, checked_text
from runtime.driver.engine_client import EngineClient

PAGE = 1_000
"""Turns that are asked for at once."""

Age = timedelta | float
"""A time span; a number is one of seconds."""


class TurnQuery(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Turns that fit all that is given; without any argument all turns of the app.

    Attributes:
        user_id: of that user.
        session_id: of that session of the user.
        state: "waiting", "running", "paused", "finished", "failed" or "cancelled".
        agent: whose `agent` it is.
        error: with this in their `error`, in small or capital letters.
        invocation: whose ids begin with it.
        version: that run or ran by this version of the tree: see Runtime.update.
        since: that began at most so long ago, a timedelta or seconds; and those in line.
        older_than: that began longer ago; none in line.
        text: in which the user or an agent has said this, in small or capital letters; none in line. The events of all turns that
            fit otherwise are read for it.
        failed_tools: True: in which a call of a tool has failed.
    """

    user_id: str | None = None
    session_id: str | None = None
    state: str | None = None
    agent: str | None = None
    error: str | None = None
    invocation: str | None = None
    version: str | None = None
    since: Age | None = None
    older_than: Age | None = None
    text: str | None = None
    failed_tools: bool = False


class CallQuery(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Calls that wait for a person and fit all that is given; without any argument all of the app.

    Attributes:
        user_id: of that user.
        session_id: of that session of the user.
        tool: of that tool.
        agent: of that agent.
        invocation: of turns whose ids begin with it.
        since: that were made at most so long ago, a timedelta or seconds.
        older_than: that were made longer ago.
    """

    user_id: str | None = None
    session_id: str | None = None
    tool: str | None = None
    agent: str | None = None
    invocation: str | None = None
    since: Age | None = None
    older_than: Age | None = None


async def found_turns(client: EngineClient, which: TurnQuery, limit: int, before: TurnInfo | None = None) -> list[TurnInfo]:
    """The turns that fit: those in line first, then the one that began last.

    Args:
        limit: at most so many.
        before: the last turn of an earlier list, whose next page is wanted.

    Raises:
        RequestError: the query, or another argument, is wrong.
        StoreError: the store cannot be read.
    """
    match = _match(which)
    user, session = checked_scope(which.user_id, which.session_id)
    state = checked_choice("state", which.state, TURN_STATES) if which.state is not None else ""
    if before is not None and not isinstance(before, TurnInfo):
        raise RequestError(f"before must be a TurnInfo of an earlier list, not {type(before).__name__}")
    left = checked_number("limit", limit)
    since_s = now_s() - checked_age("since", which.since) if which.since is not None else 0.0
    places = [_place(before)] if before is not None else []
    if which.older_than is not None:
        # Turns are listed from the newest on: those that are older begin after this place.
        places.append((now_s() - checked_age("older_than", which.older_than), ""))
    after = min(places, default=None)
    found: list[TurnInfo] = []
    while left > 0:
        message = ListTurns(
            app=client.app_name,
            user=user,
            session=session,
            state=state,
            limit=min(left, PAGE),
            before=after,
            since_s=since_s,
            match=match,
        )
        page = await list_turns(client.session, message)
        found += page
        left -= len(page)
        if len(page) < message.limit or page[-1].state == "waiting":
            break
        after = _place(page[-1])
    return found


async def found_calls(client: EngineClient, which: CallQuery, most_turns: int) -> list[list[PendingCall]]:
    """The calls that fit, by their turns; of the newest turn first.

    Args:
        most_turns: those of at most so many turns.

    Raises:
        RequestError: the query is wrong.
        SessionNotFoundError: there is no such session.
        StoreError: the store cannot be read.
    """
    user, session = checked_scope(which.user_id, which.session_id)
    since_s, older_than_s = (
        checked_age(name, age) if age is not None else None
        for name, age in (("since", which.since), ("older_than", which.older_than))
    )
    begins = checked_text("invocation", which.invocation or "")
    asked_s = now_s()
    found: list[list[PendingCall]] = []
    reply = PendingReply()
    while len(found) < most_turns:
        reply = await pending_page(client, user, session, reply.next)
        fitting = [
            call
            for call in reply.calls
            if which.tool in (None, call.name)
            and which.agent in (None, call.agent)
            and call.invocation_id.startswith(begins)
            and (since_s is None or asked_s - call.asked_s <= since_s)
            and (older_than_s is None or asked_s - call.asked_s > older_than_s)
        ]
        found += calls_by_turn(fitting)
        if reply.next is None:
            break
    return found[:most_turns]


def calls_by_turn(calls: Iterable[PendingCall]) -> list[list[PendingCall]]:
    """The calls of each turn, in their order."""
    turns: dict[tuple[str, str, str], list[PendingCall]] = {}
    for call in calls:
        turns.setdefault((call.user_id, call.session_id, call.invocation_id), []).append(call)
    return list(turns.values())


async def pending_page(
    client: EngineClient, user: str | None, session: str | None, before: tuple[float, str] | None
) -> PendingReply:
    """The calls at which some of the paused turns wait. `before` is the `next` of the page before it."""
    return await client.session.ask(ListPending(app=client.app_name, user=user, session=session, before=before))


def checked_scope(user_id: str | None, session_id: str | None) -> tuple[str | None, str | None]:
    """A user and a session, or None for all. Raises RequestError for a session without a user, InvalidIdError."""
    if session_id is not None and user_id is None:
        raise RequestError("session_id names a session of a user: give user_id, too")
    user = checked_id("user id", user_id) if user_id is not None else None
    return user, checked_id("session id", session_id) if session_id is not None else None


def _match(which: TurnQuery) -> TurnMatch:
    given = {name: getattr(which, name) for name in ("agent", "error", "invocation", "version", "text")}
    texts = {name: checked_text(name, value) for name, value in given.items() if value is not None}
    return TurnMatch(**texts, failed_tools=which.failed_tools)


def _place(turn: TurnInfo) -> tuple[float, str]:
    """Where a turn stands in a list."""
    return turn.begun_s, turn.invocation_id


LOOKED_AT = 20
"""Turns of a session, those that began last, among which the newest is looked for: clocks may have been set back."""


def newest_of_session(turns: Sequence[TurnInfo]) -> TurnInfo | None:
    """The turn of a session that began last in its log, whatever the clocks have said; None if there is none.

    Args:
        turns: LOOKED_AT of the session as they are listed. One in line is newer than all that have begun.
    """
    return turns[0] if turns and turns[0].state == "waiting" else max(turns, key=lambda turn: turn.first_seq, default=None)
