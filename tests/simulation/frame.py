"""What all worlds have in common: a seed makes a scenario, the scenario is played, and what does not hold is said.

A world is two functions. Its scenario is a value that can be printed as code and made smaller, and holds all that goes wrong;
`tests.simulation.worlds` lists the worlds, and `python -m tests.simulation WORLD SEED` tells and shrinks a seed of any of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from actors.interfaces.telemetry import LOGGER
from tests.model.history import History
from tests.simulation.agents import forget_calls
from tests.simulation.cluster import Trace
from tests.simulation.stores import StoreCalls, clear_used
from tests.simulation.virtual_loop import NO_PROCESS, EndlessError, StuckError, VirtualLoop
from tests.simulation.world import seeded


class Left(msgspec.Struct, kw_only=True):
    """What a scenario leaves when it was played.

    Attributes:
        problems: what does not hold.
        trace: what has happened, step by step.
        history: what programs have asked for, and what they were given.
    """

    problems: list[str] = []
    trace: Trace = msgspec.field(default_factory=Trace)
    history: History = msgspec.field(default_factory=History)


class World(NamedTuple):
    """A world.

    Attributes:
        scenario: of a seed.
        play: plays a scenario; the seed decides what that does not say, such as ids.
        seeds: so many do the ordinary and the full test run play.
        part: so many of them are one test.
        one_in: of these tests the ordinary run has one in so many; 0: none.
        more: seeds that are played with `make chaos`.
    """

    scenario: Callable[[int], Any]
    play: Callable[[Any, int], Left]
    seeds: int = 120
    part: int = 10
    one_in: int = 1
    more: int = 0

    def check(self, seed: int) -> list[str]:
        """What does not hold for a seed."""
        return self.play(self.scenario(seed), seed).problems

    def failing(self, seeds: Iterable[int]) -> dict[int, str]:
        """The seeds for which something does not hold, each with the first that does not."""
        return {seed: found[0] for seed in seeds if (found := self.check(seed))}


L = TypeVar("L", bound=Left)

MOST_CPU_S = 5
"""A scenario takes a fraction of a second. After so much CPU time it goes round in circles, in which no virtual time passes."""


def in_virtual_time(
    left: L, seed: int, meet: Callable[[VirtualLoop, StoreCalls], Coroutine[Any, Any, None]], limit_s: float = 900.0
) -> L:
    """Run a coroutine function on a loop of its own, in virtual time and outside of all processes.

    Args:
        left: gets the history, and as problems what never may be: a hang, circles, and errors that were logged or not handled.
        seed: decides about ids.
        limit_s: virtual seconds in which it has to be over.
    """
    return NO_PROCESS.copy().run(_in_virtual_time, left, seed, meet, limit_s)


def _in_virtual_time(
    left: L, seed: int, meet: Callable[[VirtualLoop, StoreCalls], Coroutine[Any, Any, None]], limit_s: float
) -> L:
    loop = VirtualLoop()
    left.history = loop.history
    forget_calls()
    with _noting_errors(left.problems), _without_collection(), seeded(loop, seed) as calls, _ended_after(MOST_CPU_S):
        try:
            loop.run_until_complete(asyncio.wait_for(meet(loop, calls), limit_s))
        except (StuckError, TimeoutError) as error:
            left.problems.append(f"hang: {error or f'not over after {limit_s:g} s'}")
        except EndlessError:
            left.problems.append(f"hang: not over after {MOST_CPU_S:g} s of CPU time")
        finally:
            left.problems += [f"unhandled: {each['message']}: {each.get('exception')!r}" for each in loop.unhandled]
            logging.disable(logging.ERROR)
            loop.forget()
            logging.disable(logging.NOTSET)
            clear_used()
    return left


@contextmanager
def _ended_after(cpu_s: float) -> Iterator[None]:
    """Within, EndlessError is raised after so much CPU time of the process, and each second again: code may catch it."""

    def end(*_: object) -> None:
        raise EndlessError

    def ignore(unraisable: Any) -> None:
        # It may come to code that raises nothing, such as a callback of a weak reference. The next one follows in a second.
        if not isinstance(unraisable.exc_value, EndlessError):
            hook(unraisable)

    before, hook = signal.signal(signal.SIGVTALRM, end), sys.unraisablehook
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s, 1.0)
    sys.unraisablehook = ignore
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _noting_errors(problems: list[str]) -> Iterator[None]:
    """Within, what actors log as exceptions are problems, and nothing else is logged."""
    errors = LoggedErrors(problems)
    loggers = [logging.getLogger(name) for name in ("actors", "runtime", LOGGER)]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(errors)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(errors)
            logger.propagate = propagate
            logger.setLevel(level)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Within, tasks that nothing refers to are not collected at moments of chance."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LoggedErrors(logging.Handler):
    """Keeps what is logged as an exception: defects that were caught at an actor's border."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._problems.append(f"logged: {self.format(record)}")
