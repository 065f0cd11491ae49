"""Acts on many turns: shows what would be done, asks the person, and tells of each turn when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import typer

from actors.errors import InvocationNotFoundError, RequestError, SessionNotFoundError
from actors.layers.listing.messages import PendingCall
from actors.layers.spending.messages import UsageReport
from actors.messages.turn_info import TurnInfo
from runtime.driver.runtime import Runtime
from runtime.driver.turns.bulk import AT_ONCE, BulkReport, BulkStep
from runtime.driver.turns.finding import TurnQuery
from runtime.frontends.console.options import given_age
from runtime.frontends.console.output import WatchedLine, duration, print_json, print_table

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


def turn_query(
    user: str | None,
    session: str | None,
    agent: str | None,
    error: str | None,
    invocation: str | None,
    since: str | None,
    older_than: str | None,
    version: str | None,
    text: str | None,
) -> TurnQuery:
    """The query that options of these names mean. Raises typer.BadParameter when an age is wrong."""
    return TurnQuery(
        user_id=user,
        session_id=session,
        agent=agent,
        error=error,
        invocation=invocation,
        since=given_age(since),
        older_than=given_age(older_than),
        version=version,
        text=text,
    )


def turns_in(rt: Runtime, which: TurnQuery, states: Sequence[str | None], limit: int) -> list[TurnInfo]:
    """The turns in these states that fit, in their order; None is any state. Raises RequestError when a state is wrong."""
    given = msgspec.structs.asdict(which)
    return [turn for state in states for turn in rt.turns.list(limit=limit, **given | {"state": state})][:limit]


TURN_COLUMNS = ("INVOCATION", "SESSION", "USER", "AGENT", "STATE", "AGE")
USAGE_COLUMNS = ("CALLS", "TOKENS", "MONEY")
CALL_COLUMNS = ("INVOCATION", "SESSION", "USER", "AGENT", "CALL", "TOOL", "AGE")


def turn_row(turn: TurnInfo, waits: Sequence[PendingCall] = ()) -> tuple[str, ...]:
    """The cells of a turn below TURN_COLUMNS; of one that waits for a person with the agents whose calls wait."""
    agent = ", ".join(dict.fromkeys(call.agent for call in waits)) or turn.agent
    return turn.invocation_id, turn.session_id, turn.user_id, agent, turn.state, duration(_age_s(turn))


def used_row(used: UsageReport) -> tuple[str, ...]:
    """The sums of a turn, as cells below USAGE_COLUMNS."""
    total = used.total
    return str(total.llm_calls), str(total.tokens), "-" if total.money is None else f"{total.money:.4f} {used.currency}"


def calls_row(calls: Sequence[PendingCall]) -> tuple[str, ...]:
    """The cells of the calls of one turn below CALL_COLUMNS."""
    first = calls[0]
    agents, tools = (", ".join(dict.fromkeys(names)) for names in ([c.agent for c in calls], [c.name for c in calls]))
    ids, age = ", ".join(call.call_id for call in calls), duration(time.time() - first.asked_s)
    return first.invocation_id, first.session_id, first.user_id, agents, ids, tools, age


def _age_s(turn: TurnInfo) -> float:
    """The time since it began, or paused, or that it took."""
    if turn.state == "waiting":
        return 0.0
    if turn.state in ("running", "paused"):
        return time.time() - (turn.ended_s or turn.begun_s)
    return turn.ended_s - turn.begun_s


WIDTHS = (40, 12, 10, 14, 9, 8)
"""Of the columns of turns."""


class TurnWatch:
    """Makes the lines of the turns that fit.

    Args:
        rt: has joined the deployment.
        look: lists those that fit now.
    """

    def __init__(self, rt: Runtime, look: Callable[[], Sequence[TurnInfo]]) -> None:
        self._rt = rt
        self._look = look
        self._known: set[tuple[str, str, str]] = set()

    def lines(self) -> list[WatchedLine]:
        """The turns that fit, oldest first, and those that have fitted at the last call and do not now."""
        found = {_key(turn): turn for turn in self._look()}
        left = [turn for key in self._known if key not in found and (turn := self._now(key)) is not None]
        self._known = set(found)
        return [_line(turn) for turn in sorted([*found.values(), *left], key=lambda turn: turn.begun_s)]

    def _now(self, key: tuple[str, str, str]) -> TurnInfo | None:
        with suppress(InvocationNotFoundError, SessionNotFoundError):
            return self._rt.turns.get(*key)
        return None


def _key(turn: TurnInfo) -> tuple[str, str, str]:
    return turn.user_id, turn.session_id, turn.invocation_id


def _line(turn: TurnInfo) -> WatchedLine:
    return WatchedLine(_key(turn), (turn.state, turn.agent, turn.epoch), turn_row(turn), msgspec.to_builtins(turn))
