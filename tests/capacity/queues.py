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

SLICE_S = 0.003
"""So long a process runs while others wait for its core: the kernel's default, about."""


class SimulatedTime:
    """The events that are to come.

    Attributes:
        now_s: the time, in seconds from the start.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._numbers = count()
        self._watches = 0
        self._events: list[tuple[float, int, Then]] = []

    def call_in(self, delay_s: float, then: Then) -> None:
        """Call `then` after a while."""
        heappush(self._events, (self.now_s + delay_s, next(self._numbers), then))

    def watch_in(self, delay_s: float, then: Then) -> None:
        """Call `then` after a while, if anything else is to happen then or later: time does not pass for this alone."""
        self._watches += 1
        self.call_in(delay_s, partial(self._watched, then))

    def _watched(self, then: Then) -> None:
        self._watches -= 1
        then()

    def pause(self, delay_s: float) -> Step:
        """Wait for a while, which takes nothing."""
        return partial(self.call_in, delay_s)

    def run(self, has_ended: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until nothing is left to happen, or `has_ended` says so."""
        while len(self._events) > self._watches and not has_ended():
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


class Seat:
    """The core on which a thread ran last.

    Attributes:
        core: its number.
    """

    def __init__(self, core: int) -> None:
        self.core = core


class _Waiting:
    """A thread that wants to run: for so many more seconds, or for what `left` says once it has a core."""

    def __init__(self, left: float | Callable[[], float], then: Then, seat: Seat) -> None:
        self.left = left
        self.then = then
        self.seat = seat


class _Line:
    """The threads that wait for one core.

    Attributes:
        is_free: nothing runs on the core.
        watch: while a core that has nothing to do is to look at the line after some time; another one for each time.
    """

    def __init__(self) -> None:
        self.is_free = True
        self.waiting: deque[_Waiting] = deque()
        self.watch: object | None = None


class Cores:
    """The cores of a node. A thread runs on the core on which it ran last; others wait in its line, and each has a slice of time.

    Args:
        number: of cores.
        speed: of each; below 1 when other programs take the rest.
        takeover_s: so long it takes until a core that has nothing to do takes over a thread that waits for another one.

    Attributes:
        used_s: seconds of CPU that were used so far, all cores together.
    """

    def __init__(
        self, time: SimulatedTime, number: int, speed: float = 1.0, takeover_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.number = number
        self.used_s = 0.0
        self._time = time
        self._speed = speed
        self._takeover_s = takeover_s
        self._lines = [_Line() for _ in range(number)]
        self._seats = 0

    def seat(self) -> Seat:
        """Of a new thread. Threads begin on each core in turn."""
        self._seats += 1
        return Seat((self._seats - 1) % self.number)

    def work(self, begin: Callable[[], float], then: Then, seat: Seat) -> None:
        """Have a thread run. `begin` is called when it gets a core, and says how many seconds of CPU it takes."""
        waiting = _Waiting(begin, then, seat)
        line = self._lines[waiting.seat.core]
        if line.is_free:
            self._run(waiting)
        else:
            line.waiting.append(waiting)
            self._watch(line)

    def _run(self, waiting: _Waiting) -> None:
        self._lines[waiting.seat.core].is_free = False
        left_s = waiting.left() if callable(waiting.left) else waiting.left
        slice_s = min(left_s, SLICE_S)
        waiting.left = left_s - slice_s
        self._time.call_in(slice_s / self._speed, partial(self._end, slice_s, waiting, waiting.left <= 0))

    def _end(self, had_s: float, waiting: _Waiting, has_ended: bool) -> None:
        self.used_s += had_s
        line = self._lines[waiting.seat.core]
        if not has_ended:
            line.waiting.append(waiting)
        line.is_free = True
        if line.waiting:
            self._run(self._first(line))
        else:
            for other in self._lines:
                self._watch(other)
        if has_ended:
            waiting.then()

    def _first(self, line: _Line) -> _Waiting:
        first = line.waiting.popleft()
        if not line.waiting:
            line.watch = None
        return first

    def _watch(self, line: _Line) -> None:
        """Have a core that has nothing to do look at the line after some time, if there is one and the line is not empty."""
        if line.waiting and line.watch is None and any(each.is_free for each in self._lines):
            line.watch = object()
            self._time.call_in(self._takeover_s(), partial(self._take_over, line, line.watch))

    def _take_over(self, line: _Line, watch: object) -> None:
        if line.watch is not watch:
            return
        line.watch = None
        free = next((core for core, each in enumerate(self._lines) if each.is_free), None)
        if free is not None:
            waiting = self._first(line)
            waiting.seat.core = free
            self._run(waiting)
            self._watch(line)


class Gate:
    """Lets a few in at a time, in their order.

    Args:
        at_once: how many may be inside.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: deque[Then] = deque()

    def enter(self, then: Then) -> None:
        """A step: wait for a place."""
        if self._free:
            self._free -= 1
            then()
        else:
            self._waiting.append(then)

    def leave(self) -> None:
        """Give the place to the next one."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


class Process:
    """A process with an event loop: it takes what has come, works on it, sends what that leads to, and sleeps when none is left.

    Args:
        cores: of its node.
        name: of the part that it is one of.
        pass_s: CPU of one pass of the loop, however many messages it takes: the wake-up, and reading and writing.
        at_once: messages that one pass takes at most.
        vary: the CPU of a pass, from its mean.
        interpreter: of the threads of one process one runs at a time; each of them is a Process here, and they share this.

    Attributes:
        used_s: seconds of CPU that it has had.
        passes: of its loop.
        messages: that it has taken.
    """

    def __init__(
        self,
        time: SimulatedTime,
        cores: Cores,
        name: str = "",
        *,
        pass_s: float = 0.0,
        at_once: int | None = None,
        vary: Callable[[float], float] = float,
        interpreter: Gate | None = None,
    ) -> None:
        self.cores = cores
        self.interpreter = interpreter or Gate(1)
        self.name = name
        self.seat = cores.seat()
        self.used_s = 0.0
        self.passes = 0
        self.messages = 0
        self._time = time
        self._pass_s = pass_s
        self._at_once = at_once
        self._vary = vary
        self._inbox: deque[tuple[float, Then]] = deque()
        self._is_awake = False

    def take(self, cpu_s: float) -> Step:
        """A step: send it a message that takes so much CPU, and wait until the pass that takes it has ended."""
        return partial(self._put, cpu_s)

    def call_out(self, cpu_s: float) -> Step:
        """A step: take so much CPU outside of the interpreter, as a call of C code does."""
        return lambda then: self.cores.work(partial(self._use, cpu_s), then, self.seat)

    def _use(self, cpu_s: float) -> float:
        self.used_s += cpu_s
        return cpu_s

    def _put(self, cpu_s: float, then: Then) -> None:
        self._inbox.append((cpu_s, then))
        if not self._is_awake:
            self._is_awake = True
            # Whatever comes in this very moment comes with it.
            self._time.call_in(0.0, self._begin)

    def _begin(self) -> None:
        taken: list[Then] = []
        self.interpreter.enter(lambda: self.cores.work(partial(self._take, taken), partial(self._end, taken), self.seat))

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
        self.messages += len(taken)
        return cpu_s

    def _end(self, taken: list[Then]) -> None:
        self.interpreter.leave()
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
