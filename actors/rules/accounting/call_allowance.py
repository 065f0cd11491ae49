"""The model calls of a turn that runs, against the limit of its RunConfig.

Rules of this file:

- Calls may be counted before a run begins, so that it need not ask. Those that it does not make are given back when it ends.
- The runs that were lost could not report their calls, so at least those count that the log has.
"""

from __future__ import annotations

UNLIMITED = 2**31
"""Model calls of a turn whose RunConfig sets no limit."""


class CallAllowance:
    """Counts the model calls of one turn.

    Args:
        limit: of its RunConfig; 0 or less: none.

    Attributes:
        used: the calls that its runs have made, or that were counted beforehand.
    """

    __slots__ = ("_limit", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    @property
    def left(self) -> int:
        """Model calls that may still be made."""
        return UNLIMITED if self._limit <= 0 else self._limit - self.used

    def count(self, calls: int) -> None:
        """Count calls that are about to be made."""
        self.used += calls

    def end_run(self, made: int, *, counted: int, was_lost: bool) -> None:
        """A run has ended.

        Args:
            made: the calls that it has reported.
            counted: those that were counted beforehand.
            was_lost: an earlier actor of it was lost. A call of that one which the log has is not made again, nor given back.
        """
        more = made - counted
        self.used += max(0, more) if was_lost else more

    def count_stored(self, calls: int) -> None:
        """The log has these calls of the turn."""
        self.used = max(self.used, calls)
