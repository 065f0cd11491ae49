"""What a process has of its machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

LOOK_EVERY_S = 1.0
"""How long what was found stays true for its process: thousands of agents in it may be asked at once."""


def memory_of(pid: int) -> int | None:
    """Bytes of memory that a process of this machine has for itself; None where that cannot be told."""
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * PAGE_BYTES


class OwnProcess:
    """This process: where it is, and its memory.

    Args:
        node: the address of its machine; "" for none.
    """

    def __init__(self, node: str = "") -> None:
        self._node = node
        self._memory_bytes = 0
        self._looked_s = -LOOK_EVERY_S

    def __call__(self) -> tuple[str, int]:
        """The address of its machine, and bytes of memory; 0 where that cannot be told."""
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._memory_bytes, self._looked_s = memory_of(os.getpid()) or 0, time.monotonic()
        return self._node, self._memory_bytes
