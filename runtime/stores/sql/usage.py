"""Reads what turns have used: the sums that are stored with each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    bindparam,
    case,
    column,
    literal_column,
    null,
    select,
    tuple_,
    type_coerce,
    values,
)
from sqlalchemy.types import NULLTYPE

from actors.layers.spending.rules.report import DAY_S, day_of
from actors.layers.stores.records import TurnId, TurnName, UnsummedTurn, UsagePage, UsagePlace
from actors.messages.session import SessionKey
from runtime.stores.sql.database import Tuples
from runtime.stores.sql.schema import RUNNING, sessions, turns

PAGE = 5_000
"""Turns that are read at once, but for those of one user: other requests to the store wait for some ten milliseconds."""

UNSUMMED = b""
"""The sums of a turn that has none."""


Scope = Literal["turn", "session", "user", "app"]

_is_unsummed = (turns.c.status == RUNNING) | (turns.c.usage == UNSUMMED)
_place = (turns.c.begun_s, turns.c.sid, turns.c.invocation_id)
# Each column costs a millisecond where there are ten thousand turns, and so does one with a type to convert from.
_summed = type_coerce(case((_is_unsummed, null()), else_=turns.c.usage), NULLTYPE).label("packed")
_groups: Mapping[str, Sequence[ColumnElement[Any]]] = {
    "user": [sessions.c.user],
    "day": [turns.c.begun_s],
    "turn": [turns.c.sid, turns.c.invocation_id],
    "version": [turns.c.version],
}


@cache
def usage_list(scope: Scope, groups: str, *, after_another: bool = False) -> Select[*tuple[Any, ...]]:
    """The sums of turns, rewound ones too; null for those without. Then what tells them apart, if anything does.

    Of one turn: sid, invocation_id; of one session: sid; of a user: app, user; of an app: app, limit, and `after_begun_s`,
    `after_sid` and `after_invocation_id` if `after_another`. Always: since_s. Of an app the place of each turn comes last.
    """
    columns: list[ColumnElement[Any]] = [_summed, *(column.label(f"of_{column.name}") for column in _groups.get(groups, ()))]
    if scope != "app":
        return _wanted(columns, scope)
    columns += [column.label(f"at_{column.name}") for column in _place]
    return _wanted(columns, scope, after_another=after_another).order_by(*_place).limit(bindparam("limit"))


@cache
def unsummed_list(scope: Scope, *, after_another: bool = False, until: bool = False) -> Select[*tuple[Any, ...]]:
    """The turns without sums: see `usage_list`; with `until` those up to `until_begun_s`, `until_sid`, `until_invocation_id`."""
    last_seq = case((turns.c.status == RUNNING, literal_column("0")), else_=turns.c.last_seq).label("last_seq")
    columns = (sessions.c.app, sessions.c.user, sessions.c.session, turns.c.invocation_id, turns.c.first_seq, last_seq)
    query = _wanted([*columns, turns.c.begun_s, turns.c.version], scope, after_another=after_another).where(_is_unsummed)
    return query.where(tuple_(*_place) <= _bound("until")) if until else query


def _wanted(columns: Sequence[ColumnElement[Any]], scope: Scope, *, after_another: bool = False) -> Select[*tuple[Any, ...]]:
    query = select(*columns).join_from(turns, sessions, turns.c.sid == sessions.c.sid)
    query = query.where(turns.c.begun_s >= bindparam("since_s"))
    if scope == "user":
        return query.where(sessions.c.app == bindparam("app"), sessions.c.user == bindparam("user"))
    if scope != "app":
        query = query.where(turns.c.sid == bindparam("sid"))
        return query.where(turns.c.invocation_id == bindparam("invocation_id")) if scope == "turn" else query
    # Concatenated with "", the app's name matches no index: the walk would begin with all sessions of the app otherwise.
    query = query.where(sessions.c.app + "" == bindparam("app"))
    if after_another:
        query = query.where(turns.c.begun_s >= bindparam("after_begun_s"), tuple_(*_place) > _bound("after"))
    return query


def _bound(name: str) -> ColumnElement[Any]:
    return tuple_(*(bindparam(f"{name}_{column.name}") for column in _place))


NAMED = 100
"""Turns of which the names are read at once."""

_wanted_ids = (
    values(column("sid", BigInteger), column("invocation_id", Text), name="given")
    .data([(bindparam(f"sid_{at}", type_=BigInteger), bindparam(f"invocation_id_{at}", type_=Text)) for at in range(NAMED)])
    .cte("ids")
)
# A list of pairs after IN would make SQLite walk through all turns.
_TURN_NAMES = (
    select(turns.c.sid, sessions.c.user, sessions.c.session, turns.c.invocation_id, turns.c.begun_s)
    .select_from(_wanted_ids)
    .join(turns, (turns.c.sid == _wanted_ids.c.sid) & (turns.c.invocation_id == _wanted_ids.c.invocation_id))
    .join(sessions, sessions.c.sid == turns.c.sid)
)


def turn_names(ask: Callable[..., Tuples], ids: Sequence[TurnId]) -> Mapping[TurnId, TurnName]:
    """The names of turns, without those that are not there.

    Args:
        ask: runs a query with the parameters that are given by name. Raises StoreError.
    """
    names: dict[TurnId, TurnName] = {}
    for first in range(0, len(ids), NAMED):
        some = ids[first : first + NAMED]
        given: dict[str, object] = {}
        for at, (sid, invocation_id) in enumerate([*some, *[(0, "")] * (NAMED - len(some))]):
            given |= {f"sid_{at}": sid, f"invocation_id_{at}": invocation_id}
        names |= {(sid, name[2]): TurnName(*name) for sid, *name in ask(_TURN_NAMES, **given)}
    return names


def usage_page(ask: Callable[..., Tuples], scope: Scope, groups: str, after: UsagePlace | None) -> UsagePage:
    """A page of turns: of an app so many, of any other scope all of them.

    Args:
        ask: runs a query with the parameters that are given by name, and those of the scope. Raises StoreError.
    """
    bounds = _named("after", after)
    limit = {"limit": PAGE} if scope == "app" else {}
    rows = ask(usage_list(scope, groups, after_another=after is not None), **bounds, **limit)
    following = UsagePlace(*rows[-1][-3:]) if limit and len(rows) == PAGE else None
    summed: Tuples = rows
    unsummed: list[UnsummedTurn] = []
    packed = [row[0] for row in rows]
    if None in packed:
        summed = [row for row in rows if row[0] is not None]
        packed = [row[0] for row in summed]
        query = unsummed_list(scope, after_another=after is not None, until=following is not None)
        unsummed = [UnsummedTurn(SessionKey(*row[:3]), *row[3:]) for row in ask(query, **bounds, **_named("until", following))]
    ids = _Ids(summed) if groups == "turn" else ()
    return UsagePage({"": packed} if groups in ("", "turn") else _grouped(groups, summed), unsummed, following, ids)


class _Ids(Sequence[TurnId]):
    """The ids of turns, cut out of their rows when they are asked for: of ten thousand turns a report names a hundred."""

    def __init__(self, rows: Tuples) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return [row[1:3] for row in self._rows[at]] if isinstance(at, slice) else self._rows[at][1:3]


def _grouped(groups: str, summed: Sequence[tuple[Any, ...]]) -> Mapping[str, Sequence[bytes]]:
    by_value: dict[Any, list[bytes]] = defaultdict(list)
    if groups == "day":
        for row in summed:
            by_value[row[1] // DAY_S].append(row[0])
        return {day_of(day * DAY_S): turns for day, turns in by_value.items()}
    for row in summed:
        by_value[row[1]].append(row[0])
    return by_value


def _named(name: str, place: UsagePlace | None) -> dict[str, object]:
    return {f"{name}_{field}": value for field, value in place._asdict().items()} if place is not None else {}
