"""What enters a log: it is checked, appended, and shown to subscribers once it is on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from actors.errors import RequestError
from actors.interfaces.stores import TurnRow, Write
from actors.messages.codec import encode
from actors.messages.config import Limits
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping, StateDelta
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.turns import OpenTurn
from actors.messages.session import SessionKey
from actors.rules.accounting import Tallies
from actors.rules.checks import state as scopes
from actors.rules.checks.ids import checked_id
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.checks.values import check_event, check_state
from actors.rules.eviction import LruDict
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


MAX_BOUNDS = 10_000
"""States whose size is remembered; others are measured when they change next."""


class Admission:
    """Checks events and states against the limits of a Session actor. Its methods raise, or return None.

    It checks before anything is changed, so that a refused message leaves nothing behind. A state is not measured at each change.
    The bytes added since it was measured last give an upper bound; only when that exceeds the limit, the state is measured again.
    When several Session actors add to the state of one user or app at the same time, each by less than the limit, only their
    store can tell: it measures what all of them have written.

    Args:
        limits: how large things may be.
        is_one_of_several: the store is one of several, which share no state of the app.

    Raises:
        RequestError: a change is one of the app's state, and there are several stores.
        InvalidIdError: an id, an author or a key of a state cannot be one.
        TooLargeError: the event is too large, or a state would be.
        NotEncodableError: a value of a state is nested too deep.
    """

    def __init__(self, limits: Limits, *, is_one_of_several: bool = False) -> None:
        self._limits = limits
        self._is_one_of_several = is_one_of_several
        self._bounds: LruDict[SessionKey, int] = LruDict(MAX_BOUNDS)

    def event(self, log: SessionLog, raw: bytes, event: EventScan) -> None:
        """Check an event that is to be appended, without its `temp:` state."""
        check_event(event.author, len(raw), self._limits)
        checked_id("event id", event.id)
        checked_id("invocation id", event.invocation_id)
        checked_id("author", event.author)
        for call_id in event.calls:
            checked_id("function call id", call_id)
        if event.actions.state_delta:
            known = scopes.Scopes(log.state, log.user_state, log.app_state, {})
            self._state(log.key, known, event.actions.state_delta, len(raw))

    def first(self, message: OpenTurn, app_state: JsonMapping, user_state: JsonMapping) -> None:
        """Check a turn with which its session is to be created."""
        check_event(USER, len(message.event), self._limits)
        delta = message.state_delta
        self.new(message.key, without_temp(delta) if delta else delta, app_state, user_state)
        if delta:
            self.temp({}, only_temp(delta))

    def new(self, key: SessionKey, delta: JsonMapping, app_state: JsonMapping, user_state: JsonMapping) -> None:
        """Check a session that is to be created with that state, by prefixed keys."""
        checked_id("app name", key.app)
        checked_id("user id", key.user)
        checked_id("session id", key.session)
        if delta:
            self._state(key, scopes.Scopes({}, dict(user_state), dict(app_state), {}), delta, len(encode(delta)))

    def temp(self, known: JsonMapping, delta: StateDelta) -> None:
        """Check a change of a turn's `temp:` state, keys without prefix."""
        if delta:
            scopes.check(delta)
            check_state("temp", len(encode({**known, **delta})), self._limits.max_state_bytes)

    def forget_state(self, scope: SessionKey) -> None:
        """Measure the state under a key again: another Session actor may have changed it."""
        self._bounds.pop(scope)

    def _state(self, key: SessionKey, known: scopes.Scopes, delta: JsonMapping, size: int) -> None:
        """Check a change of state. `size`: bytes of the change, or more."""
        scopes.check(delta)
        changed = scopes.split(delta)
        if changed.app and self._is_one_of_several:
            raise RequestError(
                f"state {scopes.APP + next(iter(changed.app))!r} cannot be set: the deployment has several stores, which share "
                "no state of the app. Use user: keys, or one store"
            )
        self._grow("session", key, known.session, changed.session, size)
        self._grow("user", SessionKey(key.app, key.user, ""), known.user, changed.user, size)
        self._grow("app", SessionKey(key.app, "", ""), known.app, changed.app, size)

    def _grow(self, scope: str, key: SessionKey, known: JsonMapping, delta: JsonMapping, size: int) -> None:
        if not delta:
            return
        bound = self._bounds.get(key)
        if bound is None or bound + size > self._limits.max_state_bytes:
            size = 0
            bound = len(encode({**known, **delta}))
            check_state(scope, bound, self._limits.max_state_bytes)
        self._bounds[key] = bound + size
