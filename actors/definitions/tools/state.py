"""Session state as user code reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from actors.messages.codec import plain
from actors.messages.json_types import JsonMapping, JsonValue, StateDelta
from actors.rules.checks.state_values import check_value


class State(MutableMapping[str, JsonValue]):
    """Session state as a mapping of prefixed keys. What is written is kept in `delta`, which is stored with an event.

    A list or dictionary that was read from the state may be changed in place: that counts as a write of its key, too. Deleting a
    key sets it to None, for an event can only set keys.

    Args:
        base: the state as it was before.
        delta: where changes go; by default a new dictionary.

    Attributes:
        delta: the changes so far, those in place after `record_changes` only.
    """

    def __init__(self, base: JsonMapping, delta: StateDelta | None = None) -> None:
        self._base = base
        self.delta: StateDelta = {} if delta is None else delta
        # The lists and dictionaries that were read: as they were, and the copies that were given out.
        self._lent: dict[str, tuple[JsonValue, JsonValue]] = {}

    def __getitem__(self, key: str) -> JsonValue:
        if key in self.delta:
            return self.delta[key]
        if key not in self._lent:
            value = self._base[key]
            if not isinstance(value, dict | list):
                return value
            # A copy, since other code of the run reads the same state. Values of the state are plain, so this is fast.
            self._lent[key] = (value, plain(value))
        return self._lent[key][1]

    def __setitem__(self, key: str, value: JsonValue) -> None:
        check_value(key, value)
        self.delta[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.delta[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self.delta or key in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self.delta if key not in self._base)

    def __len__(self) -> int:
        return len(self._base) + sum(key not in self._base for key in self.delta)

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
