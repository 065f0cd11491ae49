"""Places in a list of turns, as texts that clients hand back."""

from __future__ import annotations

import base64

import msgspec

from actors.messages.turn_info import TurnInfo
from runtime.web.problems import BadRequestError


def encode_cursor(turn: TurnInfo) -> str:
    """The place after a turn."""
    return base64.urlsafe_b64encode(msgspec.json.encode((turn.begun_s, turn.invocation_id))).decode().rstrip("=")


def decode_cursor(cursor: str) -> TurnInfo:
    """A turn at that place. Raises BadRequestError."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        begun_s, invocation_id = msgspec.json.decode(raw, type=tuple[float, str])
    except (ValueError, msgspec.DecodeError):
        raise BadRequestError("before must be the `next` of an earlier page") from None
    return TurnInfo(user_id="", session_id="", invocation_id=invocation_id, state="finished", begun_s=begun_s)
