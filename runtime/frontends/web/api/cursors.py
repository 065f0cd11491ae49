"""Places in lists of turns, of sessions and of schedules, as texts that clients hand back."""

from __future__ import annotations

import base64
from typing import TypeVar

import msgspec

from actors.layers.stores.schedule import Schedule
from actors.messages import typed
from actors.messages.content import Content
from actors.messages.session import Session, SessionPlace
from actors.messages.turn_info import TurnInfo
from runtime.frontends.web.problems import BadRequestError

T = TypeVar("T")


def encode_cursor(turn: TurnInfo) -> str:
    """The place after a turn."""
    return _encoded((turn.begun_s, turn.invocation_id))


def decode_cursor(cursor: str) -> TurnInfo:
    """A turn at that place. Raises BadRequestError."""
    begun_s, invocation_id = _decoded(cursor, tuple[float, str])
    return TurnInfo(user_id="", session_id="", invocation_id=invocation_id, state="finished", begun_s=begun_s)


def encode_session(session: Session) -> str:
    """The place after a session."""
    return _encoded(SessionPlace(session.last_update_time, session.user_id, session.id))


def decode_session(cursor: str) -> Session:
    """A session at that place. Raises BadRequestError."""
    place = _decoded(cursor, SessionPlace)
    return Session(app_name="", user_id=place.user, id=place.session, last_update_time=place.updated_s)


def encode_schedule(schedule: Schedule) -> str:
    """The place after a schedule."""
    return _encoded((schedule.user_id, schedule.name))


def decode_schedule(cursor: str) -> Schedule:
    """A schedule at that place. Raises BadRequestError."""
    user_id, name = _decoded(cursor, tuple[str, str], "after")
    return Schedule(user_id=user_id, name=name, session_id="", message=Content(), state="active")


def _encoded(place: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(cursor: str, kind: type[T], parameter: str = "before") -> T:
    try:
        return typed.decode_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), kind)
    except (ValueError, msgspec.DecodeError):
        raise BadRequestError(f"{parameter} must be the `next` of an earlier page") from None
