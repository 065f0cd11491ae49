"""Leases by which one Session actor may use states of users and of the app that another one may change, without asking the store.

Rules of this file:

- An actor that holds a lease of another one hears of each change there before anybody else hears that it is stored. So a change
  waits for the actors that hold leases, and for one that does not answer until its lease has run out.
- The one that gives a lease counts it from when it gives it, the one that holds it from when it has asked: that is never later.
  Only the pace of the two clocks has to be the same.
- A lease counts from when the one that gives it was known to be the writer of its place. One that was replaced and lives on gives
  none that is longer than what its successor waits for.
- When a lease has run out, changes may have been missed: all that was read before is to be looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.messages.session import Shard

LEASE_S = 1.5
"""How long a lease lasts. A change waits so long, at most, for an actor that was lost or cut off."""

RENEW_S = 0.5
"""When a lease is renewed."""

VERIFIED_S = 0.5
"""How long an actor goes without looking whether it is still the writer of its place, if it gives leases."""


class GivenLeases:
    """The leases that an actor has given to others, by the numbers of their shards."""

    def __init__(self) -> None:
        self._until_s: dict[int, float] = {}

    def give(self, shard: int, *, verified_s: float, now_s: float) -> float:
        """Give a lease. Returns how long the other one may count it, in seconds from when it has asked.

        Args:
            verified_s: when this actor was known to be the writer of its place.
        """
        self._until_s[shard] = now_s + LEASE_S
        return LEASE_S - (now_s - verified_s)

    def presume(self, shards: Iterable[int], now_s: float) -> None:
        """Take it that others have leases of the actor in whose place this one is."""
        self._until_s.update(dict.fromkeys(shards, now_s + LEASE_S))

    def held(self, now_s: float) -> Mapping[int, float]:
        """When the leases run out that have not, by shard."""
        return {shard: until_s for shard, until_s in self._until_s.items() if until_s > now_s}


class HeldLeases:
    """The leases that an actor holds, of each of some others.

    Args:
        shards: of these.

    Attributes:
        era: raised whenever changes may have been missed. What was read in another one is to be looked at again.
    """

    def __init__(self, shards: Iterable[int]) -> None:
        self._until_s = dict.fromkeys(shards, 0.0)
        self._first_s = 0.0
        self.era = 0

    def note(self, shard: int, *, asked_s: float, for_s: float, now_s: float) -> None:
        """Note what another one has answered."""
        if now_s >= self._until_s[shard]:
            self.era += 1
        self._until_s[shard] = max(self._until_s[shard], asked_s + for_s)
        self._first_s = min(self._until_s.values())

    def holds(self, now_s: float) -> bool:
        """Whether this actor hears of all changes."""
        return now_s < self._first_s


def may_share(shard: Shard, other: Shard) -> bool:
    """True when some session may belong to both shards, such as that of a Runner and that of a Session actor.

    The heaviest of a few numbers is the heaviest of more as well, unless it is one of those that are more: as many Runners as
    Session actors have nothing to do with each other but one by one.
    """
    return shard.index == other.index or other.index >= shard.of or shard.index >= other.of
