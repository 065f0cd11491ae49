"""How often Python looks for garbage: in the processes of a deployment, and in a program while its Runtimes are open."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

OBJECTS = 50_000
"""New objects after which Python looks through them for garbage. By default 700: so many are alive in a few turns at once.

At 10,000, which some 50 turns at once have, it took a sixth of the CPU of 256 turns at once; at 700 more than half of it.
"""

THRESHOLDS = (OBJECTS, 40, 3)
"""After how many new objects Python looks through them; after how many such looks also through all that was new since the last
such look; and after how many of these through all there is. By default 700, 10, 10.

Ten thousand turns that wait for a model are over a million objects in an agent's process. With 10 instead of 40 Python looked at
most of them twice, 500,000 at a time, and found nothing: half of what looking for garbage took then, and each time the
process stood still for a fifth of a second.
"""


WITHOUT_GARBAGE = (2_000_000, 1, 3)
"""The same in processes of ours after a look that found next to nothing: what ends there leaves no garbage, only users' code may.

To look through the million objects of ten thousand turns once, as they come, is a seventh of the CPU of their openings; and 300
requests that wait at a server are 50,000 objects, for which it would answer none for a tenth of a second.
"""

NEXT_TO_NOTHING = OBJECTS // 100
"""Objects of garbage."""


def look_less_often() -> None:
    """Have Python look for garbage less often in this process, hardly ever while there is none, and never among what exists now.

    Ray, pydantic and the agents' own modules are hundreds of thousands of objects that live as long as the process. To go through
    them again and again was a sixth of what a turn costs.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _after_look not in gc.callbacks:
        gc.callbacks.append(_after_look)


def _after_look(phase: str, found: Mapping[str, int]) -> None:
    """Decide after how many new objects the next look is. Thresholds that code of users has set stand."""
    if phase == "stop" and gc.get_threshold() in (THRESHOLDS, WITHOUT_GARBAGE):
        gc.set_threshold(*(THRESHOLDS if found["collected"] > NEXT_TO_NOTHING else WITHOUT_GARBAGE))


class Existing:
    """What exists when the first of the blocks begins that run at once, in any thread: left out until the last of them ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._is_left_alone = False

    def leave_out(self) -> None:
        """A block begins."""
        with self._lock:
            self._blocks += 1
            if self._blocks > 1:
                return
            # Python counts what is frozen one by one, a tenth of a second for a million objects: of a program that has frozen
            # some, once.
            self._is_left_alone = self._is_left_alone or gc.get_freeze_count() > 0
            if not self._is_left_alone:
                gc.freeze()

    def look_again(self) -> None:
        """A block has ended."""
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0 and not self._is_left_alone:
                gc.unfreeze()


EXISTING = Existing()
"""Of this program."""


@contextmanager
def existing_left_out() -> Iterator[None]:
    """Have Python look for garbage only among what is made in the block, in all threads.

    A tree of a hundred thousand agents is millions of objects, and to check and pack it makes as many: three looks through all
    that existed before took a quarter of the CPU of a start. A program that has frozen objects by itself is left alone, from
    the first block on that sees it.
    """
    EXISTING.leave_out()
    try:
        yield
    finally:
        EXISTING.look_again()


class RareCollection:
    """Has Python look for garbage less often in a program, from its first open Runtime to the end of its last one.

    A program that has turned the collector off, or has it look less often by itself, is left alone. So is what it changes
    meanwhile.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runtimes = 0
        self._before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """A Runtime opens."""
        with self._lock:
            self._runtimes += 1
            before = gc.get_threshold()
            if self._runtimes == 1 and 0 < before[0] < OBJECTS:
                self._before = before
                gc.set_threshold(*THRESHOLDS)

    def end(self) -> None:
        """A Runtime has ended."""
        with self._lock:
            self._runtimes -= 1
            if self._runtimes == 0 and self._before is not None:
                of_each = zip(gc.get_threshold(), THRESHOLDS, self._before, strict=True)
                gc.set_threshold(*(before if now == ours else now for now, ours, before in of_each))
                self._before = None


RARE_COLLECTION = RareCollection()
"""Of this program."""
