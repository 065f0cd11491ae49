"""The inputs of a map: what each says, for whom, and under which ids its turn runs.

Rules of this file:

- An input that names no turn gets its id from the map's name and from what it says. So the same program finds the turns of its
  earlier runs, in whatever order the inputs come.
- Two equal inputs are two inputs: the second one's id says that it is the second.
- Each attempt at an input is a turn of its own. The first has the input's id, the others the same id with a number.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from actors.errors import InvalidMessageError
from actors.errors.hints import did_you_mean
from actors.messages.codec import plain
from actors.messages.content import Content
from actors.messages.json_types import JsonObject
from actors.rules.checks.ids import checked_id
from runtime.driver.user_message import to_content, to_state

FIELDS = ("message", "user_id", "session_id", "state_delta", "invocation_id")
"""The keys of an input that is a dictionary."""

DIGEST = 24
"""Characters of an input's digest in its id."""


class MapInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a map, checked.

    Attributes:
        index: its position, from 0.
        has_own_session: no session was given, so each attempt gets a new one.
    """

    index: int
    given: Any
    content: Content
    user_id: str
    session_id: str
    invocation_id: str
    state_delta: JsonObject
    has_own_session: bool

    def ids(self, attempt: int) -> tuple[str, str]:
        """The ids of the session and of the turn of an attempt, from 1."""
        if attempt == 1:
            return self.session_id, self.invocation_id
        turn = f"{self.invocation_id}/{attempt}"
        return turn if self.has_own_session else self.session_id, turn


class InputReader:
    """Makes inputs of what a program gives, one after the other.

    Args:
        user_id: of inputs that name none.
    """

    def __init__(self, name: str, user_id: str) -> None:
        self._name = name
        self._user_id = user_id
        # The first bytes of digests, and how often they have come: two that begin alike are as rare as they are harmless.
        self._seen: Counter[int] = Counter()

    def read(self, index: int, given: object) -> MapInput:
        """The next input. Raises InvalidMessageError, InvalidIdError, NotEncodableError."""
        fields = _fields(given)
        content = to_content(fields["message"])
        state = to_state(fields.get("state_delta"))
        user_id = checked_id("user id", fields.get("user_id") or self._user_id)
        session_id = fields.get("session_id")
        if session_id:
            checked_id("session id", session_id)
        given_id = fields.get("invocation_id")
        invocation_id = checked_id("invocation id", given_id or self._new_id(content, state, user_id, session_id))
        return MapInput(
            index=index,
            given=given,
            content=content,
            user_id=user_id,
            session_id=checked_id("session id", session_id or invocation_id),
            invocation_id=invocation_id,
            state_delta=state,
            has_own_session=not session_id,
        )

    def _new_id(self, content: Content, state: JsonObject, user_id: str, session_id: object) -> str:
        said = msgspec.json.encode([plain(content), plain(state), user_id, session_id], order="sorted")
        digest = hashlib.sha256(said).digest()
        start = int.from_bytes(digest[:8])
        self._seen[start] += 1
        count = self._seen[start]
        return f"{self._name}-{digest.hex()[:DIGEST]}{f'-{count}' if count > 1 else ''}"


def _fields(given: object) -> Mapping[str, Any]:
    """The fields of an input, under the names of `Runtime.run`."""
    if not isinstance(given, Mapping) or ("parts" in given and "message" not in given):
        return {"message": given}
    for key in given:
        if key not in FIELDS:
            hint = did_you_mean(str(key), FIELDS)
            raise InvalidMessageError(f"an input has no field {key!r}.{hint} Its fields: {', '.join(FIELDS)}")
    if "message" not in given:
        raise InvalidMessageError(f"an input needs a message: give a text, a Content, or a dictionary with {', '.join(FIELDS)}")
    return given
