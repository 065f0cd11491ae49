"""Queues of a simulation: a clock, cores that processes share, processes, and the log into which a group commits.

Everything that takes time is a `Step`: called with what to do then, it does that once the time has passed. A script is a
generator of steps, one after the other. Equal times keep the order in which they were asked for, so the same script has the same
outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count

Then = Callable[[], None]
Step = Callable[[Then], None]
Script = Iterator[Step]


class SimulatedTime:
    """The events that are to come.

    Attributes:
        now_s: the time, in seconds from the start.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Then]] = []

    def call_in(self, delay_s: float, then: Then) -> None:
        """Call `then` after a while."""
        heappush(self._events, (self.now_s + delay_s, next(self._numbers), then))

    def pause(self, delay_s: float) -> Step:
        """Wait for a while, which takes no CPU."""
        return partial(self.call_in, delay_s)

    def run(self) -> None:
        """Let time pass until nothing is left to happen."""
        while self._events:
            self.now_s, _, then = heappop(self._events)
            then()


def play(script: Script, then: Then = lambda: None) -> None:
    """Begin a script. `then` is called when it has ended."""

    def advance() -> None:
        step = next(script, None)
        if step is None:
            then()
        else:
            step(advance)

    advance()


class Cores:
    """The cores of a node: whoever wants one waits in a line for all of them.

    Attributes:
        number: of cores.
        used_s: seconds of CPU that were used so far, all cores together.
    """

    def __init__(self, time: SimulatedTime, number: int) -> None:
        self.number = number
        self.used_s = 0.0
        self._time = time
        self._free = number
        self._waiting: deque[tuple[Callable[[], float], Then]] = deque()

    def work(self, begin: Callable[[], float], then: Then) -> None:
        """Have a process run. `begin` is called when it gets a core, and says how many seconds of CPU it takes."""
        if self._free:
            self._free -= 1
            self._run(begin, then)
        else:
            self._waiting.append((begin, then))

    def _run(self, begin: Callable[[], float], then: Then) -> None:
        cpu_s = begin()
        self.used_s += cpu_s
        self._time.call_in(cpu_s, partial(self._end, then))

    def _end(self, then: Then) -> None:
        if self._waiting:
            self._run(*self._waiting.popleft())
        else:
            self._free += 1
        then()


class Process:
    """A process with an event loop: it takes what has come, works on it, sends what that leads to, and sleeps when none is left.

    Args:
        cores: of its node.
        pass_s: CPU of one pass of the loop, however many messages it takes: the wake-up, and reading and writing.
        at_once: messages that one pass takes at most; 0: all.
        vary: the CPU of a pass, from its mean.

    Attributes:
        used_s: seconds of CPU that it has had.
        passes: of its loop.
    """

    def __init__(
        self,
        time: SimulatedTime,
        cores: Cores,
        *,
        pass_s: float = 0.0,
        at_once: int = 0,
        vary: Callable[[float], float] = float,
    ) -> None:
        self.used_s = 0.0
        self.passes = 0
        self._time = time
        self._cores = cores
        self._pass_s = pass_s
        self._at_once = at_once
        self._vary = vary
        self._inbox: deque[tuple[float, Then]] = deque()
        self._is_awake = False

    def take(self, cpu_s: float) -> Step:
        """A step: send it a message that takes so much CPU, and wait until the pass that takes it has ended."""
        return partial(self._put, cpu_s)

    def _put(self, cpu_s: float, then: Then) -> None:
        self._inbox.append((cpu_s, then))
        if not self._is_awake:
            self._is_awake = True
            # Whatever comes in this very moment comes with it.
            self._time.call_in(0.0, self._begin)

    def _begin(self) -> None:
        taken: list[Then] = []
        self._cores.work(partial(self._take, taken), partial(self._end, taken))

    def _take(self, taken: list[Then]) -> float:
        """What has come until the process has a core. Returns the CPU that it takes."""
        cpu_s = self._pass_s
        for _ in range(min(len(self._inbox), self._at_once or len(self._inbox))):
            each_s, then = self._inbox.popleft()
            cpu_s += each_s
            taken.append(then)
        cpu_s = self._vary(cpu_s)
        self.used_s += cpu_s
        self.passes += 1
        return cpu_s

    def _end(self, taken: list[Then]) -> None:
        # What these send to the process itself comes with its next pass.
        for then in taken:
            then()
        if self._inbox:
            self._begin()
        else:
            self._is_awake = False


class CommitLog:
    """Group commit: while one transaction is under way, what comes gathers for the next.

    Args:
        transaction: the steps of a transaction of so many writes.

    Attributes:
        commits: transactions so far.
    """

    def __init__(self, time: SimulatedTime, transaction: Callable[[int], Script]) -> None:
        self.commits = 0
        self._time = time
        self._transaction = transaction
        self._waiting: list[Then] = []
        self._is_writing = False

    def write(self, then: Then) -> None:
        """A step: wait until the write is on disk, and all before it."""
        self._waiting.append(then)
        if not self._is_writing:
            self._is_writing = True
            self._time.call_in(0.0, self._begin)

    def _begin(self) -> None:
        group, self._waiting = self._waiting, []
        play(self._transaction(len(group)), partial(self._end, group))

    def _end(self, group: list[Then]) -> None:
        self.commits += 1
        for then in group:
            then()
        if self._waiting:
            self._begin()
        else:
            self._is_writing = False
