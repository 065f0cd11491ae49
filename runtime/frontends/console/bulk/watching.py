"""Follows turns that fit. One that fits no more is printed once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from actors.errors import InvocationNotFoundError, SessionNotFoundError
from actors.messages.turn_info import TurnInfo
from runtime.driver.runtime import Runtime
from runtime.frontends.console.bulk.rows import turn_row
from runtime.frontends.console.watching import WatchedLine

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
