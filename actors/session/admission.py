"""What the Session actor lets into a log: ids that can be ids, events and state that are not too large.

Rules of this file:

- It is asked before anything is changed, so that what is refused leaves nothing behind.
- The size of a state is not measured at each change: what was added since the last measuring is an upper bound, and only when
  that goes beyond the limit the state is measured again. Where several Session actors add to the state of a user or of the app at
  the same time, each by less than the limit, it may become larger by what they add.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.messages.codec import encode
from actors.messages.event import USER
from actors.messages.limits import Limits
from actors.messages.protocol.turns import OpenTurn
from actors.messages.session import SessionKey
from actors.rules.checks import state as scopes
from actors.rules.checks.ids import checked_id
from actors.rules.checks.sizes import check_event, check_state
from actors.rules.checks.state import only_temp, without_temp
from actors.session.log.event_scan import EventScan
from actors.session.log.session_log import SessionLog

MOST_BOUNDS = 10_000
"""States whose size is remembered; beyond it all are forgotten, and measured when they change next."""


class Admission:
    """One per Session actor."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bounds: dict[SessionKey, int] = {}

    def event(self, hot: SessionLog, raw: bytes, event: EventScan) -> None:
        """See that an event may enter the log. Its `temp:` state is not looked at.

        Raises:
            InvalidIdError: an id, its author or a key of its state_delta cannot be one.
            TooLargeError: it is too large, or the state would be.
            NotEncodableError: a value of its state_delta is nested too deep.
        """
        check_event(event.author, len(raw), self._limits)
        checked_id("event id", event.id)
        checked_id("invocation id", event.invocation_id)
        checked_id("author", event.author)
        for call_id in event.calls():
            checked_id("function call id", call_id)
        if event.actions.state_delta:
            known = scopes.Scopes(hot.state, hot.user_state, hot.app_state, {})
            self._state(hot.key, known, event.actions.state_delta, len(raw))

    def first(self, message: OpenTurn, app_state: Mapping[str, Any], user_state: Mapping[str, Any]) -> None:
        """See that a turn may be opened whose session is still to be made. Raises as `event`."""
        check_event(USER, len(message.event), self._limits)
        self.new(message.key, without_temp(message.state_delta), app_state, user_state)
        self.temp({}, only_temp(message.state_delta))

    def new(self, key: SessionKey, delta: Mapping[str, Any], app_state: Mapping[str, Any], user_state: Mapping[str, Any]) -> None:
        """See that a session may be made with that state, by prefixed keys. Raises as `event`."""
        checked_id("app name", key.app)
        checked_id("user id", key.user)
        checked_id("session id", key.session)
        self._state(key, scopes.Scopes({}, dict(user_state), dict(app_state), {}), delta, len(encode(delta)))

    def temp(self, known: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        """See that the `temp:` state of a turn may be changed so, keys without prefix. Raises as `event`."""
        if delta:
            scopes.check(delta)
            check_state("temp", len(encode({**known, **delta})), self._limits)

    def forget_shared(self, key: SessionKey) -> None:
        """Somebody else may have changed the state that a session shares with others."""
        self._bounds.pop(SessionKey(key.app, key.user, ""), None)
        self._bounds.pop(SessionKey(key.app, "", ""), None)

    def _state(self, key: SessionKey, known: scopes.Scopes, delta: Mapping[str, Any], size: int) -> None:
        """See that the state may be changed so. `size`: bytes of the change, or more."""
        scopes.check(delta)
        changed = scopes.split(delta)
        self._grow("session", key, known.session, changed.session, size)
        self._grow("user", SessionKey(key.app, key.user, ""), known.user, changed.user, size)
        self._grow("app", SessionKey(key.app, "", ""), known.app, changed.app, size)

    def _grow(self, scope: str, key: SessionKey, known: Mapping[str, Any], delta: Mapping[str, Any], size: int) -> None:
        if not delta:
            return
        bound = self._bounds.get(key)
        if bound is None or bound + size > self._limits.max_state_bytes:
            size = 0
            bound = len(encode({**known, **delta}))
            check_state(scope, bound, self._limits)
        if len(self._bounds) >= MOST_BOUNDS:
            self._bounds.clear()
        self._bounds[key] = bound + size
