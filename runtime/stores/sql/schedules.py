"""Schedules in the session store: how they are read, and changed in the transaction of a commit."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, select, tuple_

from actors.layers.stores.records import AddSchedule, AdvanceSchedule, RemoveSchedule, SetDueTime
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.session import SessionKey
from runtime.stores.sql.database import SqlTransaction
from runtime.stores.sql.schema import schedules
from runtime.stores.sql.statements import RowsStatement, insert_new

NAMED = RowsStatement(
    (schedules.c.app, schedules.c.user, schedules.c.name),
    "SELECT there.* FROM given JOIN raygrove_schedules AS there "
    'ON there.app = given.app AND there."user" = given."user" AND there.name = given.name',
)
"""All columns of schedules, by app, user and name."""

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

_KEY = (schedules.c.app, schedules.c.user, schedules.c.name, schedules.c.id)
_THIS = 'there.app = given.app AND there."user" = given."user" AND there.name = given.name AND there.id = given.id'
_ADD = insert_new(schedules)
_SET_DUE = RowsStatement(
    (*_KEY, schedules.c.due_s, schedules.c.paused),
    f"UPDATE raygrove_schedules AS there SET due_s = given.due_s, paused = given.paused, error = '' FROM given WHERE {_THIS}",
)
_HAS_BEGUN = RowsStatement(
    (*_KEY, schedules.c.last_s, schedules.c.due_s),
    "UPDATE raygrove_schedules AS there SET due_s = given.due_s, last_s = given.last_s, turns = there.turns + 1, error = '' "
    f"FROM given WHERE {_THIS} AND there.due_s <= given.last_s",
)
_HAS_FAILED = RowsStatement(
    (*_KEY, schedules.c.last_s, schedules.c.due_s, schedules.c.error),
    "UPDATE raygrove_schedules AS there SET due_s = given.due_s, error = given.error "
    f"FROM given WHERE {_THIS} AND there.due_s <= given.last_s",
)
_IS_OVER = RowsStatement(
    (*_KEY, schedules.c.last_s),
    'DELETE FROM raygrove_schedules AS there WHERE (app, "user", name) IN (SELECT app, "user", name FROM given) '
    f"AND EXISTS (SELECT 1 FROM given WHERE {_THIS} AND there.due_s <= given.last_s)",
)
_REMOVE = RowsStatement(
    _KEY,
    'DELETE FROM raygrove_schedules WHERE (app, "user", name, id) IN (SELECT app, "user", name, id FROM given)',
)


def change_schedule(transaction: SqlTransaction, write: ScheduleWrite) -> None:
    """Do one write."""
    match write:
        case AddSchedule(key, row):
            values = (key.app, key.user, row.name, row.id, key.session)
            transaction.send(_ADD, [(*values, row.due_s, row.paused, row.last_s, row.turns, row.error, row.raw)])
        case SetDueTime(key, name, schedule_id, due_s, paused):
            transaction.send(_SET_DUE, [(key.app, key.user, name, schedule_id, due_s, paused)])
        case AdvanceSchedule(key, time, error):
            of = (key.app, key.user, time.name, time.id, time.due_s)
            if error:
                transaction.send(_HAS_FAILED, [(*of, time.next_s, error)])
            elif time.next_s is None:
                transaction.send(_IS_OVER, [of])
            else:
                transaction.send(_HAS_BEGUN, [(*of, time.next_s)])
        case RemoveSchedule(key, name, schedule_id):
            transaction.send(_REMOVE, [(key.app, key.user, name, schedule_id)])
