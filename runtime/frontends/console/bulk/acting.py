"""Acts on many turns: shows what would be done, asks the person, and says of each turn when it is done."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

import typer

from actors.errors import RaygroveError, RequestError
from runtime.driver.turns.turn import Turn
from runtime.frontends.console.output import print_json, print_table

T = TypeVar("T")

FAILED, INTERRUPTED = 1, 130
"""Exit codes: not all could be done; Ctrl-C."""

AT_ONCE = 16
"""Turns that are worked on at the same time."""

SHOWN = 20
"""Turns that are shown before the question."""


@dataclass(frozen=True)
class Done:
    """What was done with one turn: the line for people, and the fields for JSON."""

    line: str
    fields: Mapping[str, object]


@dataclass(frozen=True)
class Action(Generic[T]):
    """What a command does with each of many things.

    Attributes:
        verb: such as "cancel".
        past: such as "cancelled".
        noun: such as "turn".
        columns: of the table that shows them.
        row: one of them, in that table.
        do: does it. Raises RaygroveError when it cannot be done.
        place: those that have the same are done one after the other, in the order in which they were found.
    """

    verb: str
    past: str
    noun: str
    columns: Sequence[str]
    row: Callable[[T], Sequence[str]]
    do: Callable[[T], Done]
    place: Callable[[T], Hashable] = id

    def counted(self, number: int) -> str:
        """So many of these things."""
        return f"{number} {self.noun}{'' if number == 1 else 's'}"


def act(action: Action[T], found: Sequence[T], *, dry_run: bool, yes: bool, json: bool) -> int:
    """Act on all that was found. What was done when it is interrupted stays done, so the same command goes on with the rest.

    Args:
        dry_run: only show them.
        yes: do not ask.
        json: print JSON, an object a line.

    Returns:
        The exit code: 0, 1 when some could not be done, 130 after Ctrl-C.

    Raises:
        RequestError: the person would have to be asked, and there is none.
    """
    if dry_run:
        _show(action, found, json=json)
        _say(f"{action.counted(len(found))} would be {action.past}")
        return 0
    if not found:
        _say(f"no {action.noun} fits: nothing is {action.past}")
        return 0
    if not yes and not _agrees(action, found):
        _say(f"nothing is {action.past}")
        return FAILED
    return _act(action, found, json=json)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(action: Action[T], found: Sequence[T], *, json: bool) -> None:
    rows = [action.row(each) for each in found]
    if json:
        print_json(dict(zip((column.lower() for column in action.columns), row, strict=True)) for row in rows)
    else:
        print_table(action.columns, rows)


def _agrees(action: Action[T], found: Sequence[T]) -> bool:
    if not sys.stdin.isatty():
        raise RequestError(
            f"{action.counted(len(found))} would be {action.past}: look with --dry-run, and give --yes where no one can be asked"
        )
    print_table(action.columns, [action.row(each) for each in found[:SHOWN]])
    if len(found) > SHOWN:
        _say(f"and {len(found) - SHOWN} more: --dry-run shows all")
    return typer.confirm(f"{action.verb.capitalize()} {action.counted(len(found))}?")


def _act(action: Action[T], found: Sequence[T], *, json: bool) -> int:
    done = failed = 0
    try:
        for each, result in _results(action, found):
            if isinstance(result, RaygroveError):
                failed += 1
                _say(f"{' '.join(action.row(each)[:2])}: {' '.join(str(result).split())}")
            else:
                done += 1
                if json:
                    print_json([result.fields])
                else:
                    print(result.line, flush=True)
    except KeyboardInterrupt:
        _say(f"interrupted: {done} of {action.counted(len(found))} {action.past}. The same command goes on with the rest")
        return INTERRUPTED
    if not json:
        _say(f"{action.counted(done)} {action.past}" + (f", {failed} not" if failed else ""))
    return FAILED if failed else 0


def _results(action: Action[T], found: Sequence[T]) -> Iterator[tuple[T, Done | RaygroveError]]:
    """Each thing with what was done, as soon as it is. No more are begun when the iteration is left."""

    def attempt(each: T) -> Done | RaygroveError:
        try:
            return action.do(each)
        except RaygroveError as error:
            return error

    left: dict[Hashable, deque[T]] = {}
    for each in found:
        left.setdefault(action.place(each), deque()).append(each)
    ready = deque(left)
    under_way: dict[Future[Done | RaygroveError], T] = {}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while ready or under_way:
            while ready and len(under_way) < AT_ONCE:
                each = left[ready.popleft()].popleft()
                under_way[threads.submit(attempt, each)] = each
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                each = under_way.pop(future)
                if left[place := action.place(each)]:
                    ready.append(place)
                yield each, future.result()


def begun(turn: Turn) -> None:
    """Wait until a turn is open, and follow it no more. Call it where no event loop runs. Raises why it could not start."""
    asyncio.run(turn.started_async())
    turn.detach()
