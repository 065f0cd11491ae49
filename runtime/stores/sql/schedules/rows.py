"""Rows of schedules as records."""

from __future__ import annotations

from typing import Any

from actors.messages.operating.schedule import ScheduleRow
from actors.messages.session import SessionKey


def schedule_row(row: Any) -> ScheduleRow:
    """The record of a schedule, of a row with all columns by their names."""
    return ScheduleRow(
        key=SessionKey(row.app, row.user, row.session),
        name=row.name,
        id=row.id,
        due_s=row.due_s,
        paused=bool(row.paused),
        last_s=row.last_s,
        turns=row.turns,
        error=row.error,
        raw=bytes(row.raw),
    )
