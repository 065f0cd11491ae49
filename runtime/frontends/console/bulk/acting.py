"""Acts on many turns: shows what would be done, asks the person, and tells of each turn when it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import typer

from actors.errors import RequestError
from actors.layers.listing.messages import PendingCall
from actors.messages.turn_info import TurnInfo
from runtime.driver.turns.bulk import AT_ONCE, BulkReport, BulkStep
from runtime.frontends.console.output import print_json, print_table

T = TypeVar("T", bound=TurnInfo | Sequence[PendingCall])

FAILED, INTERRUPTED = 1, 130
"""Exit codes: not all could be done; Ctrl-C."""

SHOWN = 20
"""Turns that are shown before the question."""


@dataclass(frozen=True)
class Action(Generic[T]):
    """What a command does with many turns.

    Attributes:
        verb: such as "cancel".
        past: such as "cancelled".
        columns: of the table that shows them.
        row: one of them, in that table.
        do: acts on some of them.
        done: of one with which it is done, the line for people, and the fields for JSON.
    """

    verb: str
    past: str
    columns: Sequence[str]
    row: Callable[[T], Sequence[str]]
    do: Callable[[Sequence[T]], BulkReport[T]]
    done: Callable[[BulkStep[T]], tuple[str, Mapping[str, object]]]


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
        _say(f"{_counted(len(found))} would be {action.past}")
        return 0
    if not found:
        _say(f"no turn fits: nothing is {action.past}")
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
            f"{_counted(len(found))} would be {action.past}: look with --dry-run, and give --yes where no one can be asked"
        )
    print_table(action.columns, [action.row(each) for each in found[:SHOWN]])
    if len(found) > SHOWN:
        _say(f"and {len(found) - SHOWN} more: --dry-run shows all")
    return typer.confirm(f"{action.verb.capitalize()} {_counted(len(found))}?")


def _act(action: Action[T], found: Sequence[T], *, json: bool) -> int:
    done = failed = 0
    try:
        for first in range(0, len(found), AT_ONCE):
            for step in action.do(found[first : first + AT_ONCE]).steps:
                if step.error is not None:
                    failed += 1
                    _say(f"{' '.join(action.row(step.of)[:2])}: {' '.join(str(step.error).split())}")
                    continue
                done += 1
                line, fields = action.done(step)
                if json:
                    print_json([fields])
                else:
                    print(line, flush=True)
    except KeyboardInterrupt:
        _say(f"interrupted: {done} of {_counted(len(found))} {action.past}. The same command goes on with the rest")
        return INTERRUPTED
    if not json:
        _say(f"{_counted(done)} {action.past}" + (f", {failed} not" if failed else ""))
    return FAILED if failed else 0


def _counted(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"
