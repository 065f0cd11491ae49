"""Session state as user code reads and writes it, and as the calls of one model response share it.

What one call writes, the others read; and so it is with the functions that run in one graph. Sync functions run in threads, and
each reads a value, makes a new one of it and writes that. So the first look at the state makes a function the only one that uses
it, until the function returns: two that add to one list both do. A function that never looks at the state waits for none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, MutableMapping
from itertools import count
from typing import Protocol

from actors.errors.user_code import ThreadCall, call_of_thread
from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, JsonValue, StateDelta
from actors.rules.checks.values import check_value

logger = logging.getLogger(__name__)

WAIT_S = 30.0
"""A function waits no longer for another one: the two may wait for each other."""


class State(MutableMapping[str, JsonValue]):
    """Session state as a mapping of prefixed keys. What is written is kept in `delta`, which is stored with an event.

    A list or dictionary that was read from the state may be changed in place: that counts as a write of its key, too. A key that
    was deleted is gone for the code that shares this state. `delta` has None for it, for an event can only set keys: agents that
    read the state from the log find None.

    Args:
        base: the state as it was before.
        delta: where changes go; by default a new dictionary.
        deleted: the keys that were deleted, of all that share the state; by default a new set.

    Attributes:
        delta: the changes so far, those in place after `record_changes` only.
    """

    def __init__(self, base: JsonMapping, delta: StateDelta | None = None, deleted: set[str] | None = None) -> None:
        self._base = base
        self.delta: StateDelta = {} if delta is None else delta
        # A key in here is absent as long as its newest value is None.
        self._deleted: set[str] = set() if deleted is None else deleted
        # The lists and dictionaries that were read: as they were, and the copies that were given out.
        self._lent: dict[str, tuple[JsonValue, JsonValue]] = {}

    @property
    def stored(self) -> JsonMapping:
        """The state as it was before, without a copy: its values must not be changed."""
        return self._base

    def __getitem__(self, key: str) -> JsonValue:
        value = self._value(key)
        if value is None and key in self._deleted:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: JsonValue) -> None:
        check_value(key, value)
        self._deleted.discard(key)
        self._set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._deleted.add(key)
        self._set(key, None)

    def __contains__(self, key: object) -> bool:
        return self._has(key) and not self._is_deleted(key)

    def __iter__(self) -> Iterator[str]:
        # A list, since other code may write while this one iterates.
        return iter([key for key in self._keys() if not self._is_deleted(key)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def popitem(self) -> tuple[str, JsonValue]:
        """Delete the last key, and return it with its value. Raises KeyError when there is none."""
        key = next(reversed(list(self)), None)
        if key is None:
            raise KeyError("the state is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Delete all keys, those of the user and of the app included."""
        for key in list(self):
            del self[key]

    def _is_deleted(self, key: object) -> bool:
        return key in self._deleted and self._value(str(key)) is None

    def _value(self, key: str) -> JsonValue:
        """The newest value of a key, None for one that was deleted. Raises KeyError."""
        if key in self.delta:
            return self.delta[key]
        if key not in self._lent:
            value = self._base[key]
            if not isinstance(value, dict | list):
                return value
            # A copy, since other code of the run reads the same state. Values of the state are plain, so this is fast.
            self._lent[key] = (value, plain(value))
        return self._lent[key][1]

    def _has(self, key: object) -> bool:
        """True for a key that is there, or was deleted."""
        return key in self.delta or key in self._base

    def _keys(self) -> Iterable[str]:
        """The keys in their order, with those that were deleted."""
        return dict.fromkeys([*self._base, *self.delta])

    def _set(self, key: str, value: JsonValue) -> None:
        self.delta[key] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"

    def to_dict(self) -> StateDelta:
        """The state as a dictionary of its own, by prefixed keys."""
        copied: StateDelta = plain(dict(self))
        return copied

    def record_changes(self) -> None:
        """Take the lists and dictionaries that were changed in place into `delta`."""
        for key, (before, lent) in self._lent.items():
            if key not in self.delta and lent != before:
                self.delta[key] = lent

    def taken(self) -> None:
        """Note that `delta` is on its way to the log: what is changed in place from now on is another write."""
        for key in self._lent.keys() & self.delta.keys():
            self._lent[key] = (plain(self._lent[key][1]), self._lent[key][1])


class Sharing(Protocol):
    """The state as several functions share it that run at the same time."""

    def state_over(self, base: JsonMapping, delta: StateDelta, writes: dict[str, int]) -> State:
        """The state as one of them has it.

        Args:
            base: as it was before them.
            delta: where its changes go.
            writes: where the number of the newest write of each key of `delta` goes, if they are numbered.
        """
        ...


class ThreadTurns:
    """Lets one function at a time use the state, of those that run in threads.

    Attributes:
        waiting: how many functions wait until another one returns.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._changed = threading.Condition()
        self._user: ThreadCall | None = None
        self._tired: set[ThreadCall] = set()
        self._is_over = False

    def enter(self) -> None:
        """Wait until no other function that runs in a thread uses the state; from then on this one does, until it returns.

        Code of an event loop never waits: it is not interrupted by other code of that loop between two awaits.
        """
        call = call_of_thread()
        if call is None or call is self._user or call in self._tired:
            return
        with self._changed:
            self.waiting += 1
            until_s = time.monotonic() + WAIT_S
            while self._user is not None and not self._is_over:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    logger.warning("a function has waited %.0f s for the state, which another one beside it uses", WAIT_S)
                    self._tired.add(call)
                    break
                self._changed.wait(left_s)
            self.waiting -= 1
            if self._user is None and not self._is_over and call.on_return(self._leave):
                self._user = call

    def _leave(self) -> None:
        with self._changed:
            self._user = None
            self._changed.notify_all()

    def end_step(self) -> None:
        """The response is answered: no function has to wait any more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class StepState(ThreadTurns):
    """What the calls of one response have written and changed.

    Attributes:
        values: the newest value of each key that a call has written.
        deleted: the keys that a call has deleted.
        lent: copies of the lists and dictionaries of the stored state that were read, one for all calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, JsonValue] = {}
        self.deleted: set[str] = set()
        self.lent: dict[str, JsonValue] = {}
        self._numbers = count(1)

    def state_over(self, base: JsonMapping, delta: StateDelta, writes: dict[str, int]) -> State:
        """The state as one call has it: see Sharing."""
        return StateOfCall(base, delta, self, writes)

    def write(self, key: str, value: JsonValue) -> int:
        """Set a key for all calls. Returns the number of the write: a later one has a higher number."""
        self.values[key] = value
        return next(self._numbers)


class StateOfCall(State):
    """The state as one of several calls of a response has it: the others see what it writes, and it sees what they write.

    Args:
        base: the state as it was before the calls.
        delta: where the changes of this call go.
        shared: what all the calls have written.
        writes: where the number of the newest write of each key of `delta` goes.
    """

    def __init__(self, base: JsonMapping, delta: StateDelta, shared: StepState, writes: dict[str, int]) -> None:
        super().__init__(base, delta, shared.deleted)
        self._shared = shared
        self._writes = writes
        # The lists and dictionaries that this call has read or written, and copies of them as they were then.
        self._seen: dict[str, tuple[JsonValue, JsonValue]] = {}

    def _value(self, key: str) -> JsonValue:
        self._shared.enter()
        value = self._newest(key)
        if isinstance(value, dict | list) and (key not in self._seen or self._seen[key][1] is not value):
            self._seen[key] = (plain(value), value)
        return value

    def _newest(self, key: str) -> JsonValue:
        shared = self._shared
        if key in shared.values:
            return shared.values[key]
        if key not in shared.lent:
            value = self._base[key]
            if not isinstance(value, dict | list):
                return value
            shared.lent[key] = plain(value)
        return shared.lent[key]

    def _set(self, key: str, value: JsonValue) -> None:
        self._shared.enter()
        self._write(key, value)

    def _write(self, key: str, value: JsonValue) -> None:
        self._writes[key] = self._shared.write(key, value)
        self.delta[key] = value
        if isinstance(value, dict | list):
            self._seen[key] = (plain(value), value)

    def _has(self, key: object) -> bool:
        self._shared.enter()
        return key in self._shared.values or key in self._base

    def _keys(self) -> Iterable[str]:
        self._shared.enter()
        # Other calls may write while this one iterates.
        return dict.fromkeys([*self._base, *list(self._shared.values)])

    def record_changes(self) -> None:
        """Take the lists and dictionaries that were changed in place into `delta`, unless another call has replaced them."""
        for key, (before, value) in list(self._seen.items()):
            if self._newest(key) is value and value != before:
                self._write(key, value)
