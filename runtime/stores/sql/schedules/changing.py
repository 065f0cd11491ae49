"""Changes of schedules, in the transaction of a commit. Each does nothing when it was done before."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Delete, Insert, Update, bindparam, delete, literal_column, update
from sqlalchemy.dialects import postgresql, sqlite

from actors.interfaces.records import AddSchedule, AdvanceSchedule, RemoveSchedule, SetDueTime
from actors.messages.session import SessionKey
from runtime.stores.sql.collected_rows import new_schedule
from runtime.stores.sql.schema import schedules

ScheduleWrite = AddSchedule | SetDueTime | AdvanceSchedule | RemoveSchedule
"""A write that changes schedules."""

_this = (
    schedules.c.app == bindparam("of_app"),
    schedules.c.user == bindparam("of_user"),
    schedules.c.name == bindparam("of_name"),
    schedules.c.id == bindparam("of_id"),
)
_was_due = schedules.c.due_s <= bindparam("was_due_s")

_SET_DUE: Update = update(schedules).where(*_this).values(due_s=bindparam("next_s"), paused=bindparam("is_paused"), error="")
_HAS_BEGUN: Update = (
    update(schedules)
    .where(*_this, _was_due)
    .values(due_s=bindparam("next_s"), last_s=bindparam("was_due_s"), turns=schedules.c.turns + literal_column("1"), error="")
)
_HAS_FAILED: Update = update(schedules).where(*_this, _was_due).values(due_s=bindparam("next_s"), error=bindparam("why"))
_IS_OVER: Delete = delete(schedules).where(*_this, _was_due)
_REMOVE: Delete = delete(schedules).where(*_this)


def change_schedule(connection: Connection, write: ScheduleWrite) -> None:
    """Do one write."""
    match write:
        case AddSchedule():
            connection.execute(_add(connection.dialect.name), new_schedule(write))
        case SetDueTime(key, name, schedule_id, due_s, paused):
            connection.execute(_SET_DUE, {**_of(key, name, schedule_id), "next_s": due_s, "is_paused": paused})
        case AdvanceSchedule(key, time, error):
            of = {**_of(key, time.name, time.id), "was_due_s": time.due_s}
            if error:
                connection.execute(_HAS_FAILED, {**of, "next_s": time.next_s, "why": error})
            elif time.next_s is None:
                connection.execute(_IS_OVER, of)
            else:
                connection.execute(_HAS_BEGUN, {**of, "next_s": time.next_s})
        case RemoveSchedule(key, name, schedule_id):
            connection.execute(_REMOVE, _of(key, name, schedule_id))


def _of(key: SessionKey, name: str, schedule_id: str) -> dict[str, Any]:
    return {"of_app": key.app, "of_user": key.user, "of_name": name, "of_id": schedule_id}


@cache
def _add(dialect: str) -> Insert:
    statement: Any = postgresql.insert(schedules) if dialect == "postgresql" else sqlite.insert(schedules)
    adding: Insert = statement.on_conflict_do_nothing()
    return adding
