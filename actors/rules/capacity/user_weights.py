"""What weight a user has among those who wait: how many turns, or model calls, of its are taken in a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fnmatch import fnmatchcase


def weights(of_users: Mapping[str, int]) -> Callable[[Hashable], int] | None:
    """The weight of each user: that under its id, or else under the first pattern that its id matches, or else 1.

    Returns:
        None where all have the same.
    """
    if not of_users:
        return None

    def weight_of(user: Hashable) -> int:
        name = str(user)
        found = of_users.get(name)
        if found is None:
            found = next((weight for pattern, weight in of_users.items() if fnmatchcase(name, pattern)), 1)
        return found

    return weight_of
