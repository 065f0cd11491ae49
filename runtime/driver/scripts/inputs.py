"""What a map takes and gives: its inputs, with the ids under which their turns run, and its results.

Rules for ids:

- An input that names no turn gets its id from the map's name and from what it says. So the same program finds the turns of its
  earlier runs, in whatever order the inputs come.
- Two equal inputs are two inputs: the second one's id says that it is the second.
- Each attempt at an input is a turn of its own. The first has the input's id, the others the same id with a number.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import InvalidMessageError
from actors.errors.hints import did_you_mean
from actors.messages.codec import plain
from actors.messages.content import Content
from actors.messages.event import Event, Usage
from actors.messages.json_types import JsonObject
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.shown import Shown
from actors.rules.checks.ids import checked_id
from runtime.driver.arguments import to_content, to_state
from runtime.driver.turns.turn import TurnResult

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


class MapResult(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """What became of one input of a map.

    Attributes:
        index: the input's position, from 0.
        user_id, session_id, invocation_id: the turn of the last attempt; "" when the input could not be read.
        result: how the turn ended; None when it failed.
        error: why there is no answer; None when there is one, and when the turn is paused.
        output: the answer as an object: of the map's `result_type`, or of the root's `output_schema`; else what the graph gave
            with which the turn has ended, or the text.
        events: the turn's complete events, also of one that failed.
        attempts: how many turns were made for the input, those of earlier runs included.
        is_repeated: an earlier run has made the turn, or another program.
        state_delta: changes of the state that came with the input.
        duration_s: how long this run has taken for it, with waits between attempts.
    """

    index: int
    input: Any
    user_id: str = ""
    session_id: str = ""
    invocation_id: str = ""
    result: TurnResult | None = None
    error: Exception | None = None
    output: Any = None
    events: Sequence[Event] = ()
    attempts: int = 0
    is_repeated: bool = False
    state_delta: JsonObject = {}
    duration_s: float = 0.0

    @property
    def text(self) -> str:
        """The text of the answer: see TurnResult."""
        return self.result.text if self.result is not None else ""

    @property
    def outcome(self) -> AnyOutcome | None:
        """Finished, or Paused when the turn waits for an answer; None when it failed."""
        return self.result.outcome if self.result is not None else None

    @property
    def state(self) -> JsonObject:
        """The state that the turn has set, with what came with the input, by prefixed keys. A key that was removed is None."""
        state = dict(self.state_delta)
        for event in self.events:
            state.update(event.actions.state_delta)
        return state

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls of the turn together, as far as the model tells them."""
        used = [event.usage for event in self.events if event.usage is not None]
        totals = {name: [n for each in used if (n := getattr(each, name)) is not None] for name in Usage.__struct_fields__}
        return Usage(**{name: sum(numbers) for name, numbers in totals.items() if numbers})
