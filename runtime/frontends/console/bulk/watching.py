"""Follows turns that fit: prints each one again whenever it has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from actors.errors import InvocationNotFoundError, SessionNotFoundError
from actors.messages.turn_info import TurnInfo
from runtime.driver.runtime import Runtime
from runtime.frontends.console.bulk.rows import TURN_COLUMNS, turn_row
from runtime.frontends.console.output import print_json

EACH_S = 1.0
"""Seconds between two looks."""

_WIDTHS = (40, 12, 10, 14, 9, 8)
"""Of the columns: a line is printed before the next one is known."""


class TurnWatch:
    """What is known of the turns that fit.

    Args:
        rt: has joined the deployment.
        look: lists those that fit now.
    """

    def __init__(self, rt: Runtime, look: Callable[[], Sequence[TurnInfo]]) -> None:
        self._rt = rt
        self._look = look
        self._known: dict[tuple[str, str, str], TurnInfo] = {}

    def changed(self) -> list[TurnInfo]:
        """The turns that are new or have changed since the last call, oldest first, with those that do not fit any more."""
        found = {_key(turn): turn for turn in self._look()}
        left = [turn for key in self._known if key not in found and (turn := self._now(key)) is not None]
        told = [turn for key, turn in found.items() if _shown(turn) != _shown(self._known.get(key))]
        self._known = found
        return sorted([*told, *left], key=lambda turn: turn.begun_s)

    def _now(self, key: tuple[str, str, str]) -> TurnInfo | None:
        with suppress(InvocationNotFoundError, SessionNotFoundError):
            return self._rt.turns.get(*key)
        return None


def _key(turn: TurnInfo) -> tuple[str, str, str]:
    return turn.user_id, turn.session_id, turn.invocation_id


def _shown(turn: TurnInfo | None) -> tuple[str, str, int] | None:
    return (turn.state, turn.agent, turn.epoch) if turn is not None else None


def watch_turns(watch: TurnWatch, *, json: bool, sleep: Callable[[float], None] = time.sleep) -> None:
    """Print turns as they change, until Ctrl-C. Raises what listing turns raises."""
    if not json:
        _print(TURN_COLUMNS)
    with suppress(KeyboardInterrupt):
        while True:
            for turn in watch.changed():
                if json:
                    print_json([msgspec.to_builtins(turn)])
                else:
                    _print(turn_row(turn))
            sleep(EACH_S)


def _print(cells: Sequence[str]) -> None:
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip(), flush=True)
