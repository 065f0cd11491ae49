"""What the Session actor keeps of a turn that runs, and the record of it that the store has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from actors.interfaces.records import TurnRow
from actors.messages.codec import decode, encode
from actors.messages.config import RunConfig
from actors.messages.event import USER
from actors.messages.protocol.turns import TransferRecord, TurnProgress
from actors.session.log.event_scan import EventScan

_DEFAULT = RunConfig()


class OpenCall(NamedTuple):
    """A call without an answer: whose, on which branch, and of which function."""

    author: str
    branch: str | None
    name: str


class _Carried(msgspec.Struct, array_like=True, omit_defaults=True):
    """What a turn's record carries for whoever goes on with it."""

    temp: dict[str, Any] = {}
    config: RunConfig = RunConfig()


class OpenTurn:
    """The turn that runs in a session.

    Attributes:
        runner: who runs it; "" when the Session actor has been started anew and nobody has said so yet.
        lost: numbers of runs that may write no more.
        stored: places of its events, by id.
    """

    def __init__(self, row: TurnRow, config: RunConfig, runner: str = "", temp: Mapping[str, Any] | None = None) -> None:
        self.row = row
        self.config = config
        self.runner = runner
        self.temp = dict(temp or {})
        self.lost: set[int] = set()
        self.is_ending = False
        self.forget()

    @classmethod
    def of(cls, row: TurnRow) -> OpenTurn:
        """The turn of a record, with nothing known of its events yet."""
        carried = decode(row.temp, _Carried) if row.temp else _Carried()
        return cls(row, carried.config, temp=carried.temp)

    def forget(self) -> None:
        """Nothing is known of its events: they have to be noted again, from the first."""
        self.stored: dict[str, int] = {}
        self.open_calls: dict[str, OpenCall] = {}
        self._head_seq = self.row.first_seq
        self._callers: tuple[str, ...] = ()
        self._progress: dict[str, tuple[int, dict[str, Any]]] = {}
        self._handovers: list[TransferRecord] = []
        self._said: Counter[str] = Counter()

    def record(self) -> TurnRow:
        """Its record as it is now."""
        carries_nothing = not self.temp and self.config == _DEFAULT
        return msgspec.structs.replace(self.row, temp=b"" if carries_nothing else encode(_Carried(self.temp, self.config)))

    def note(self, event: EventScan, seq: int) -> None:
        """Keep in mind what an event of the turn leaves open, and how far the turn is with it."""
        self.stored[event.id] = self._head_seq = seq
        if event.author == USER and event.branch is None:
            answered = (self.open_calls.get(call_id) for call_id in event.answered())
            self._callers = tuple(call.author for call in answered if call is not None)
        for call_id, name in event.calls().items():
            self.open_calls[call_id] = OpenCall(event.author, event.branch, name)
        for call_id in event.answered():
            self.open_calls.pop(call_id, None)
        if event.content is not None and event.content.role == "model":
            self._said[event.author] += 1
        if event.actions.agent_state is not None:
            self._progress[event.author] = (seq, event.actions.agent_state)
        if event.actions.transfer_to_agent is not None:
            self._handovers.append(TransferRecord(seq, event.branch, event.author, event.actions.transfer_to_agent))

    def so_far(self) -> TurnProgress:
        """What the log tells of it."""
        return TurnProgress(
            first_seq=self.row.first_seq,
            opened_seq=self.row.opened_seq,
            head_seq=self._head_seq,
            callers=self._callers,
            agent_states=self._progress,
            transfers=tuple(self._handovers),
            model_calls=dict(self._said),
        )
