"""Pages of lists: places in them, as texts that clients hand back, and searches: stores have no index of parts of names."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from actors.layers.stores.schedule import Schedule
from actors.messages import codec
from actors.messages.content import Content
from actors.messages.session import Session, SessionPlace
from actors.messages.turn_info import TurnInfo
from runtime.frontends.web.problems import BadRequestError

T = TypeVar("T")


def encode_turn(turn: TurnInfo | None) -> str | None:
    """The place after a turn; None for none. Turns in line have no place in the order of the others."""
    return _encoded((turn.begun_s, turn.invocation_id)) if turn is not None and turn.state != "waiting" else None


def decode_turn(cursor: str | None) -> TurnInfo | None:
    """A turn at that place. Raises BadRequestError."""
    if cursor is None:
        return None
    begun_s, invocation_id = _decoded(cursor, tuple[float, str])
    return TurnInfo(user_id="", session_id="", invocation_id=invocation_id, state="finished", begun_s=begun_s)


def encode_session(session: Session | None) -> str | None:
    """The place after a session; None for none."""
    return _encoded(SessionPlace(session.last_update_time, session.user_id, session.id)) if session is not None else None


def decode_session(cursor: str | None) -> Session | None:
    """A session at that place. Raises BadRequestError."""
    if cursor is None:
        return None
    place = _decoded(cursor, SessionPlace)
    return Session(app_name="", user_id=place.user, id=place.session, last_update_time=place.updated_s)


def encode_schedule(schedule: Schedule | None) -> str | None:
    """The place after a schedule; None for none."""
    return _encoded((schedule.user_id, schedule.name)) if schedule is not None else None


def decode_schedule(cursor: str | None) -> Schedule | None:
    """A schedule at that place. Raises BadRequestError."""
    if cursor is None:
        return None
    user_id, name = _decoded(cursor, tuple[str, str], "after")
    return Schedule(user_id=user_id, name=name, session_id="", message=Content(), state="active")


def _encoded(place: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(cursor: str, kind: type[T], parameter: str = "before") -> T:
    try:
        return codec.decode_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), kind)
    except (ValueError, msgspec.DecodeError):
        raise BadRequestError(f"{parameter} must be the `next` of an earlier page") from None


SCANNED = 10_000
"""Entries that one request looks at. What it has not reached, the next page goes on with."""

PAGE = 1_000
"""Entries that are read at once."""


async def page_of(
    read: Callable[[int, T | None], Awaitable[Sequence[T]]],
    limit: int,
    before: T | None,
    fits: Callable[[T], bool] | None = None,
) -> tuple[list[T], T | None]:
    """A page of a list.

    Args:
        read: so many entries after one.
        limit: how many at most.
        before: after which one to begin; None: at the first.
        fits: whether an entry is looked for; None: each.

    Returns:
        The entries, and the one after which to go on; None at the end of the list.
    """
    found: list[T] = []
    if fits is None:
        # One more than asked for tells whether there is a next page.
        found += await read(limit + 1, before)
        return found[:limit], found[limit - 1] if len(found) > limit else None
    for _ in range(SCANNED // PAGE):
        page = await read(PAGE, before)
        for before in page:
            if fits(before):
                found.append(before)
                if len(found) == limit:
                    return found, before
        if len(page) < PAGE:
            return found, None
    return found, before


def has_text(text: str, *values: str) -> bool:
    """True when one of the values contains the text, in letters of either case."""
    wanted = text.casefold()
    return any(wanted in value.casefold() for value in values)
