"""Appending events to logs, and showing them to subscribers once they are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from actors.interfaces.stores import TurnRow, Write
from actors.messages.event import USER
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import SessionKey
from actors.rules.accounting import Tallies
from actors.session.log.event_scan import EventScan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.subscriptions import Subscriptions

COUNTED = ("llm_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
"""What is counted of model calls: see UsageSums."""

Events = Sequence[tuple[bytes, EventScan]]
"""Events to append: each encoded, and scanned."""

OnAppend = Callable[[SessionKey, SessionTurn], None]
"""Takes a session and its open turn."""


class LogWriter:
    """Appends events to logs.

    Args:
        counts: the actor's figures; `events` and what they have used is counted here.
        tallies: get what models and tools have done.
    """

    _before: OnAppend | None = None
    _after: OnAppend | None = None

    def __init__(self, logs: SessionLogs, subscriptions: Subscriptions, counts: Counter[str], tallies: Tallies) -> None:
        self._logs = logs
        self._subscriptions = subscriptions
        self._counts = counts
        self._tallies = tallies

    def track(self, before: OnAppend, after: OnAppend) -> None:
        """Have these called from now on in each step in which events are added to an open turn: before that, and after it."""
        self._before, self._after = before, after

    def add(
        self,
        log: SessionLog,
        events: Events,
        writes: Sequence[Write] = (),
        then: Callable[[], None] | None = None,
        end: Callable[[], TurnRow] | None = None,
    ) -> Awaitable[None]:
        """Give events their positions, behind the head of the log. They are stored while it is awaited; then readers see them.

        It has to be awaited before anything else is.

        Args:
            writes: what is stored together with the events, all or none.
            then: called in the same step as the subscribers get the events.
            end: makes the record of the turn that ends with the events, once it has taken them in. It is stored with them.

        Raises:
            StoreError: nothing is stored.
        """
        self._counts["events"] += len(events)
        turn = log.turn
        if turn is not None and self._before is not None:
            self._before(log.key, turn)
        stored: list[tuple[StoredEvent, EventScan]] = []
        all_writes: list[Write] = []
        for raw, event in events:
            if event.model_version is not None or event.usage is not None:
                used = event.amounts()
                self._counts.update({name: getattr(used, name) for name in COUNTED})
                # Events leave out a time that the clock cannot tell from none.
                took_s = event.duration_s or 0.0
                self._tallies.note_model_call(event.author, event.model_version or "", event.error_code or "", took_s)
            elif event.content is not None and event.author != USER:
                for tool, outcome in event.tool_results():
                    self._tallies.note_tool_call(event.author, tool, outcome)
            each, of_event = log.add(raw, event)
            stored.append((each, event))
            all_writes += of_event
        if turn is not None and self._after is not None:
            self._after(log.key, turn)
        all_writes += writes
        if end is not None:
            all_writes.append(log.put_turn(end()))

        def show() -> None:
            for each, event in stored:
                log.mark_committed(each)
                if event.author != USER:
                    self._subscriptions.publish(log.key, event.invocation_id, [each])
                else:
                    self._subscriptions.publish_message(log.key, each)
            if turn is None or not events or events[0][1].author != USER:
                # A message that begins a turn is noted with what comes after it.
                self._logs.use(log)
            if then is not None:
                then()

        return self._logs.write(log, all_writes, show)
