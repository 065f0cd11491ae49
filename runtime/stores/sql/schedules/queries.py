"""The SELECTs of schedules; the docstring of each names its parameters."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, select, tuple_

from runtime.stores.sql.schema import schedules

_place = (schedules.c.due_s, schedules.c.user, schedules.c.name)

SCHEDULE = select(schedules).where(
    schedules.c.app == bindparam("app"), schedules.c.user == bindparam("user"), schedules.c.name == bindparam("name")
)
"""A schedule: app, user, name."""


@cache
def schedule_list(*, of_user: bool, after_another: bool) -> Select[*tuple[Any, ...]]:
    """Schedules by user and name.

    Parameters: app, limit; `user` if `of_user`; `after_user` and `after_name` if `after_another`.
    """
    by_name = (schedules.c.user, schedules.c.name)
    query = select(schedules).where(schedules.c.app == bindparam("app")).order_by(*by_name).limit(bindparam("limit"))
    if of_user:
        query = query.where(schedules.c.user == bindparam("user"))
    if after_another:
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
