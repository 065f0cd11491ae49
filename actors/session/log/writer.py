"""Appending events to logs, and showing them to subscribers once they are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter

from actors.interfaces.records import Write
from actors.messages.event import USER
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import SessionKey
from actors.rules.accounting.tallies import Tallies
from actors.rules.accounting.turn_usage import Amounts
from actors.session.log.event_scan import EventScan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.subscribers.subscriptions import Subscriptions

COUNTED = ("llm_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
"""What is counted of model calls: see UsageSums."""

_counted: Callable[[Amounts], Sequence[int]] = itemgetter(*map(Amounts._fields.index, COUNTED))

Events = Sequence[tuple[bytes, EventScan]]
"""Events to append: each encoded, and scanned."""


class LogWriter:
    """Appends events to logs.

    Args:
        logs: writes to the store.
        subscriptions: get the agents' events.
        counts: the actor's figures; `events` and what they have used is counted here.
        tallies: get what models and tools have done.

    Attributes:
        before_append, after_append: called in the same step in which events are added, with the session and its open turn.
    """

    def __init__(self, logs: SessionLogs, subscriptions: Subscriptions, counts: Counter[str], tallies: Tallies) -> None:
        self._logs = logs
        self._subscriptions = subscriptions
        self._counts = counts
        self._tallies = tallies
        self.before_append: Callable[[SessionKey, SessionTurn], None] = lambda key, turn: None
        self.after_append: Callable[[SessionKey, SessionTurn], None] = lambda key, turn: None

    async def add(
        self, log: SessionLog, events: Events, writes: Sequence[Write] = (), then: Callable[[], None] | None = None
    ) -> int:
        """Give events their positions and store them together with `writes`, all or none; then readers may see them.

        Args:
            then: called in the same step as the subscribers get the events.

        Returns:
            The position of the first event.

        Raises:
            StoreError: nothing is stored.
        """
        first_seq = log.head_seq + 1
        await self.begin_write(log, events, writes, then)
        return first_seq

    def begin_write(
        self, log: SessionLog, events: Events, writes: Sequence[Write] = (), then: Callable[[], None] | None = None
    ) -> Awaitable[None]:
        """Give events their positions, for a caller that has something to do meanwhile. They are stored while it is awaited.

        It has to be awaited before anything else is. See `add`, also for what it raises.
        """
        self._counts["events"] += len(events)
        turn = log.turn
        if turn is not None:
            self.before_append(log.key, turn)
        stored: list[StoredEvent] = []
        all_writes: list[Write] = []
        for raw, event in events:
            if event.model_version is not None or event.usage is not None:
                self._count(event.amounts())
                # Events leave out a time that the clock cannot tell from none.
                took_s = event.duration_s or 0.0
                self._tallies.note_model_call(event.author, event.model_version or "", event.error_code or "", took_s)
            elif event.content is not None and event.author != USER:
                for tool, outcome in event.tool_results():
                    self._tallies.note_tool_call(event.author, tool, outcome)
            each, of_event = log.add(raw, event)
            stored.append(each)
            all_writes += of_event
        if turn is not None:
            self.after_append(log.key, turn)

        def show() -> None:
            for each, (_, event) in zip(stored, events, strict=True):
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

        return self._logs.write(log, [*all_writes, *writes], show)

    def _count(self, used: Amounts) -> None:
        for name, number in zip(COUNTED, _counted(used), strict=True):
            if number:
                self._counts[name] += number
