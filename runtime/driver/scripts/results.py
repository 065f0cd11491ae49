"""What a map gives for each input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.event import Event, Usage
from actors.messages.json_types import JsonObject
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.shown import Shown
from runtime.driver.turns.turn import TurnResult


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
