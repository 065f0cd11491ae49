"""Schedules in the session store: how they are read, and changed in the transaction of a commit."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Delete, Select, Update, bindparam, delete, literal_column, select, tuple_, update

from actors.layers.stores.records import AddSchedule, AdvanceSchedule, RemoveSchedule, SetDueTime
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.session import SessionKey
from runtime.stores.sql.collected_rows import new_schedule
from runtime.stores.sql.schema import schedules
from runtime.stores.sql.statements import insert_new

_place = (schedules.c.due_s, schedules.c.user, schedules.c.name)

SCHEDULE = select(schedules).where(
    schedules.c.app == bindparam("app"), schedules.c.user == bindparam("user"), schedules.c.name == bindparam("name")
)
"""A schedule: app, user, name."""


@cache
def schedule_list(*, of_user: bool, after_another: bool) -> Select[*tuple[Any, ...]]:
    """Schedules by user and name.

    Parameters: app, limit; `user` if `of_user`; if `after_another`, `after_name`, and `after_user` unless `of_user`.
    """
    by_name = (schedules.c.user, schedules.c.name)
    query = select(schedules).where(schedules.c.app == bindparam("app")).order_by(*by_name).limit(bindparam("limit"))
    if of_user:
        query = query.where(schedules.c.user == bindparam("user"))
    if of_user and after_another:
        # By pairs SQLite would go through all of the user.
        query = query.where(schedules.c.name > bindparam("after_name"))
    elif after_another:
        query = query.where(tuple_(*by_name) > tuple_(bindparam("after_user"), bindparam("after_name")))
    return query


@cache
def next_schedules(*, after_another: bool) -> Select[*tuple[Any, ...]]:
    """Schedules that have a due time, the first one first: it reads an index.

    Parameters: app, limit; `after_due_s`, `after_user` and `after_name` if `after_another`.
    """
    query = select(schedules).where(schedules.c.app == bindparam("app"), schedules.c.due_s.is_not(None))
    if after_another:
        after = tuple_(bindparam("after_due_s"), bindparam("after_user"), bindparam("after_name"))
        query = query.where(tuple_(*_place) > after)
    return query.order_by(*_place).limit(bindparam("limit"))


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
            connection.execute(insert_new(schedules, connection.dialect.name), new_schedule(write))
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
