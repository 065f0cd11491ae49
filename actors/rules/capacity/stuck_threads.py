"""When a process has lost so many threads to code that does not come back that it is replaced.

- A thread is left behind when its call's caller no longer waits: the run has ended, was cancelled or took too long. Python cannot
  end a thread, so the process goes on without it, and another thread takes its place.
- A thread that is left behind may only be slow. It counts as stuck when it has not come back for `STUCK_S`.
- A process is worn out when half as many threads are stuck as may be in use, or when twice as many are left behind: then threads
  go faster than they can be told to be stuck.
"""

from __future__ import annotations

STUCK_S = 10.0
"""A thread that has not come back this long after it was left behind is taken for one that never will."""


def is_worn_out(threads: int, *, left: int, stuck: int) -> bool:
    """True when a process is to be replaced.

    Args:
        threads: how many may be in use at the same time.
        left: how many are left behind now, stuck ones included.
        stuck: how many of these are stuck.
    """
    return 2 * stuck >= threads or left >= 2 * threads
