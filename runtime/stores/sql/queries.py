"""Every SELECT of the session store, built once and reused; the docstring of each names its parameters.

None of them reads a whole log, except AUTHORS_BEFORE; `event_list` and UNDOS read the range that is asked for. Values that a
partial index compares with are literals here, as in the index, since a planner does not match parameters.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    Select,
    bindparam,
    case,
    false,
    func,
    literal_column,
    select,
    tuple_,
)

from runtime.stores.sql.schema import (
    ARCHIVED,
    RUNNING,
    archive,
    authors,
    calls,
    events,
    removals,
    session_state,
    sessions,
    shared_state,
    shared_versions,
    turns,
)
from runtime.stores.sql.statements import RowsStatement

_sid: BindParameter[int] = bindparam("sid")
_visible = events.c.hidden.is_(false())

_of_key = (
    sessions.c.app == bindparam("app"),
    sessions.c.user == bindparam("user"),
    sessions.c.session == bindparam("session"),
)

_head_seq = (
    select(func.coalesce(func.max(events.c.seq), 0))
    .where(events.c.sid == sessions.c.sid)
    .correlate(sessions)
    .scalar_subquery()
    .label("head_seq")
)

_session_columns = select(sessions, _head_seq)

SID = select(sessions.c.sid).where(*_of_key)
"""The sid of a session: app, user, session."""

SESSION = _session_columns.where(*_of_key)
"""A session's row and its `head_seq`: app, user, session."""

EXISTING = RowsStatement(
    (sessions.c.app, sessions.c.user, sessions.c.session),
    'SELECT there.app, there."user", there.session FROM given JOIN raygrove_sessions AS there '
    'ON there.app = given.app AND there."user" = given."user" AND there.session = given.session',
)
"""The keys of sessions that are there, by those of some."""

CHANGED_STATES = RowsStatement(
    (shared_versions.c.app, shared_versions.c.user, shared_versions.c.version),
    'SELECT given."user", coalesce(of_state.version, 0), there.key, there.value FROM given '
    'LEFT JOIN raygrove_shared_versions AS of_state ON of_state.app = given.app AND of_state."user" = given."user" '
    'LEFT JOIN raygrove_shared_state AS there ON there.app = given.app AND there."user" = given."user" '
    "WHERE coalesce(of_state.version, 0) <> given.version",
)
"""The states whose versions are not the known ones, by app, user and version: user, version, key and value."""

STATE = select(session_state.c.key, session_state.c.value).where(session_state.c.sid == _sid)
"""A session's own state: sid."""

SHARED_STATE = select(shared_state.c.user, shared_state.c.key, shared_state.c.value).where(
    shared_state.c.app == bindparam("app"), shared_state.c.user.in_([bindparam("user"), ""])
)
"""The user's state, and the app's in rows with user "": app, user."""

UNDOS = (
    select(events.c.seq, events.c.undo)
    .where(events.c.sid == _sid, events.c.seq >= bindparam("first_seq"), events.c.undo.is_not(None))
    .order_by(events.c.seq.desc())
)
"""The overwritten state of events, visible or not, newest first: sid, first_seq."""

_began_hidden = (
    select(events.c.seq)
    .where(events.c.sid == turns.c.sid, events.c.seq == turns.c.first_seq, events.c.hidden)
    .correlate(turns)
    .exists()
)

TURN = select(turns).where(turns.c.sid == _sid, turns.c.invocation_id == bindparam("invocation_id"), ~_began_hidden)
"""A turn that was not rewound: sid, invocation_id."""

RUNNING_TURNS = (
    select(sessions.c.app, sessions.c.user, sessions.c.session, turns)
    .join_from(turns, sessions, turns.c.sid == sessions.c.sid)
    # Concatenated with "", the app's name matches no index: SQLite would begin with all sessions of the app otherwise.
    .where(turns.c.status == RUNNING, sessions.c.app + "" == bindparam("app"), ~_began_hidden)
    .order_by(sessions.c.sid, turns.c.first_seq)
)
"""The turns of an app with the status running, with their sessions: app."""

COUNTED_TURNS = (
    select(func.count())
    .select_from(turns)
    .join(sessions, turns.c.sid == sessions.c.sid)
    .where(turns.c.status == bindparam("status", literal_execute=True), sessions.c.app + "" == bindparam("app"), ~_began_hidden)
)
"""How many turns of an app have a status: app, status."""

OPEN_VERSIONS = (
    select(turns.c.version)
    .join(sessions, turns.c.sid == sessions.c.sid)
    .where(turns.c.status == bindparam("status", literal_execute=True), sessions.c.app + "" == bindparam("app"), ~_began_hidden)
    .distinct()
)
"""The versions of the turns of an app that have a status: app, status."""

CALL = (
    select(calls.c.call_id, calls.c.seq, events.c.author, events.c.invocation_id)
    .join_from(calls, events, (events.c.sid == calls.c.sid) & (events.c.seq == calls.c.seq))
    .where(calls.c.sid == _sid, calls.c.call_id == bindparam("call_id"), _visible)
    .order_by(calls.c.seq.desc())
    .limit(1)
)
"""The newest visible call of an id: sid, call_id."""

RUNNING_TURN = select(turns).where(turns.c.sid == _sid, turns.c.status == RUNNING, ~_began_hidden)
"""The turn of a session with the status running: sid."""

AUTHORS_BEFORE = (
    select(events.c.author)
    .where(events.c.sid == _sid, events.c.seq < bindparam("before_seq"), _visible)
    .group_by(events.c.author)
    .order_by(func.max(events.c.seq).desc())
)
"""The distinct authors of visible events before a seq, most recent first; it reads the whole log: sid, before_seq."""

PLACE = select(events.c.seq, events.c.invocation_id).where(events.c.sid == _sid, events.c.id == bindparam("id"), _visible)
"""The seq and invocation id of a visible event: sid, id."""

TAKEN = select(events.c.seq, events.c.id).where(
    events.c.sid == _sid, (events.c.seq == bindparam("seq")) | (events.c.id == bindparam("id"))
)
"""The events that have the seq or the id of another one: sid, seq, id."""


AUTHORS = select(authors.c.author, authors.c.seq).where(authors.c.sid == _sid).order_by(authors.c.seq.desc())
"""The agents that have spoken, most recent first, each with a seq: sid."""


@cache
def session_list(*, of_user: bool, paged: bool = False, after_another: bool = False) -> Select[*tuple[Any, ...]]:
    """The sessions of an app, or of one of its users, last updated first.

    Parameters: app; `user` if `of_user`; `limit` if `paged`; `before_updated_s`, `before_user` and `before_session` if
    `after_another`, for those that come after that one in the list.
    """
    wanted: Select[Any] = _session_columns if not paged else select(sessions.c.sid)
    wanted = wanted.where(sessions.c.app == bindparam("app"))
    updated_s: ColumnElement[float] = sessions.c.updated_s
    if of_user:
        # The sum matches no index: SQLite would walk that of all sessions of the app, and look for the user's.
        wanted, updated_s = wanted.where(sessions.c.user == bindparam("user")), updated_s + literal_column("0")
    if after_another:
        at_s: BindParameter[float] = bindparam("before_updated_s")
        user: BindParameter[str] = bindparam("before_user")
        session: BindParameter[str] = bindparam("before_session")
        later_named = (sessions.c.user < user) | ((sessions.c.user == user) & (sessions.c.session < session))
        wanted = wanted.where(updated_s <= at_s, (updated_s < at_s) | later_named)
    last_first = (updated_s.desc(), sessions.c.user.desc(), sessions.c.session.desc())
    wanted = wanted.order_by(*last_first)
    if not paged:
        return wanted
    # Neither database leaves the newest event of a session alone when it sorts: those of the page are looked for afterwards.
    page = wanted.limit(bindparam("limit", type_=BigInteger)).subquery()
    return _session_columns.join(page, page.c.sid == sessions.c.sid).order_by(*last_first)


@cache
def state_list(*, of_user: bool) -> Select[int, str, bytes]:
    """The own state of the sessions of an app, or of one of its users: app; `user` if `of_user`."""
    query = (
        select(session_state.c.sid, session_state.c.key, session_state.c.value)
        .join_from(session_state, sessions, session_state.c.sid == sessions.c.sid)
        .where(sessions.c.app == bindparam("app"))
    )
    return query.where(sessions.c.user == bindparam("user")) if of_user else query


STATES_OF_SESSIONS = select(session_state.c.sid, session_state.c.key, session_state.c.value).where(
    session_state.c.sid.in_(bindparam("sids", expanding=True))
)
"""The own state of some sessions: sids."""


@cache
def turn_list(scope: Literal["session", "user", "app"], status: str, *, paged: bool) -> Select[*tuple[Any, ...]]:
    """Turns with their sessions, newest first, without those that were rewound.

    Of one session: sid; of a user: app, user; of an app: app. Also limit, and begun_s and invocation_id of the turn before the
    first if `paged`. It walks an index down from the newest: of a user, in each of the user's sessions.

    Args:
        status: only turns in that stored state; "" for all.
    """
    last_of_session = select(func.max(events.c.seq)).where(events.c.sid == turns.c.sid).correlate(turns).scalar_subquery()
    last_seq = case((turns.c.status == RUNNING, last_of_session), else_=turns.c.last_seq).label("last_seq")
    columns = [column for column in turns.c if column.name != "last_seq"]
    query = (
        select(sessions.c.app, sessions.c.user, sessions.c.session, *columns, last_seq)
        .join_from(turns, sessions, turns.c.sid == sessions.c.sid)
        .where(*_listed(turns, status, paged))
        .order_by(turns.c.begun_s.desc(), turns.c.invocation_id.desc())
        .limit(bindparam("limit"))
    )
    if scope == "session":
        return query.where(turns.c.sid == _sid)
    if scope == "app":
        # Concatenated with "", the app's name matches no index: the walk would begin with all sessions of the app otherwise.
        return query.where(sessions.c.app + "" == bindparam("app"))
    newest = turns.alias("newest")
    oldest_wanted = (
        select(newest.c.begun_s)
        .where(newest.c.sid == sessions.c.sid, *_listed(newest, status, paged))
        .order_by(newest.c.begun_s.desc(), newest.c.invocation_id.desc())
        .limit(1)
        .offset(bindparam("limit") - 1)
        .correlate(sessions)
        .scalar_subquery()
    )
    of_user = (sessions.c.app == bindparam("app"), sessions.c.user == bindparam("user"))
    return query.where(*of_user, turns.c.begun_s >= func.coalesce(oldest_wanted, literal_column("-1")))


def _listed(of: FromClause, status: str, paged: bool) -> list[ColumnElement[bool]]:
    began = events.alias()
    hidden = select(began.c.seq).where(began.c.sid == of.c.sid, began.c.seq == of.c.first_seq, began.c.hidden).correlate(of)
    conditions: list[ColumnElement[bool]] = [~hidden.exists()]
    if status:
        conditions.append(of.c.status == literal_column(f"'{status}'"))
    if paged:
        begun_s: BindParameter[float] = bindparam("begun_s")
        conditions += [of.c.begun_s <= begun_s, (of.c.begun_s < begun_s) | (of.c.invocation_id < bindparam("invocation_id"))]
    return conditions


@cache
def event_list(*, limited: bool, since: bool, newest: bool, before: bool = False) -> Select[int, bytes]:
    """Visible events by seq, descending if `newest`: sid, after_seq.

    Also `limit` if `limited`, `after_s` if `since`, `before_seq` if `before`.
    """
    query = select(events.c.seq, events.c.raw).where(events.c.sid == _sid, events.c.seq > bindparam("after_seq"), _visible)
    if since:
        query = query.where(events.c.timestamp >= bindparam("after_s"))
    if before:
        query = query.where(events.c.seq < bindparam("before_seq"))
    query = query.order_by(events.c.seq.desc() if newest else events.c.seq)
    return query.limit(bindparam("limit")) if limited else query


@cache
def old_sessions(*, of_user: bool, after_another: bool) -> Select[*tuple[Any, ...]]:
    """Sessions that may be pruned, the oldest first, with the numbers of their events and turns.

    Parameters: app, before_s, limit; `user` if `of_user`; `after_updated_s`, `after_user` and `after_session` if `after_another`.
    """
    newest_s = (
        select(events.c.timestamp)
        .where(events.c.sid == sessions.c.sid)
        .order_by(events.c.seq.desc())
        .limit(1)
        .correlate(sessions)
        .scalar_subquery()
    )
    of_session = turns.c.sid == sessions.c.sid
    count = select(func.count()).select_from(turns).where(of_session).correlate(sessions).scalar_subquery().label("turns")
    is_open = turns.c.status.in_([RUNNING, literal_column("'paused'")])
    goes_on = select(turns.c.sid).where(of_session, is_open, ~_began_hidden).correlate(sessions).exists()
    before_s: BindParameter[float] = bindparam("before_s")
    place = (sessions.c.updated_s, sessions.c.user, sessions.c.session)
    query = (
        select(sessions.c.app, *place[1:], place[0], _head_seq, count)
        .where(sessions.c.app == bindparam("app"), sessions.c.updated_s < before_s, sessions.c.created_s < before_s, ~goes_on)
        # An event that belongs to no turn, and a rewind, leave the session's own time as it is.
        .where(func.coalesce(newest_s, literal_column("0")) < before_s)
        .order_by(*place)
        .limit(bindparam("limit"))
    )
    if of_user:
        query = query.where(sessions.c.user == bindparam("user"))
    if after_another:
        after = tuple_(bindparam("after_updated_s"), bindparam("after_user"), bindparam("after_session"))
        query = query.where(tuple_(*place) > after)
    return query


@cache
def removal_list(*, of_user: bool) -> Select[*tuple[Any, ...]]:
    """The sessions whose removal is noted: app; `user` if `of_user`."""
    query = select(removals).where(removals.c.app == bindparam("app")).order_by(*removals.primary_key.columns)
    return query.where(removals.c.user == bindparam("user")) if of_user else query


@cache
def long_sessions(*, of_user: bool, after_another: bool) -> Select[str, str]:
    """User and id of the sessions whose logs have more than some events, in this order.

    Parameters: app, more_than, limit; `user` if `of_user`; `after_user` and `after_session` if `after_another`.
    """
    place = (sessions.c.user, sessions.c.session)
    query = select(*place).where(sessions.c.app == bindparam("app"), _head_seq.element > bindparam("more_than"))
    if of_user:
        query = query.where(sessions.c.user == bindparam("user"))
    if after_another:
        query = query.where(tuple_(*place) > tuple_(bindparam("after_user"), bindparam("after_session")))
    return query.order_by(*place).limit(bindparam("limit"))


_archived_seq = (
    select(archive.c.last_seq).where(archive.c.sid == _sid).order_by(archive.c.first_seq.desc()).limit(1).scalar_subquery()
)
_newest_seq = select(func.max(events.c.seq)).where(events.c.sid == _sid).scalar_subquery()
_open_seq = (
    select(func.min(turns.c.first_seq))
    .where(turns.c.sid == _sid, turns.c.status.in_([RUNNING, literal_column("'paused'")]), ~_began_hidden)
    .scalar_subquery()
)
_kept: BindParameter[int] = bindparam("keep")

NEXT_EVENTS = (
    select(events.c.seq, events.c.timestamp, func.length(events.c.raw).label("size"))
    .where(
        events.c.sid == _sid,
        events.c.seq > func.coalesce(_archived_seq, literal_column("0")),
        events.c.seq > bindparam("after_seq"),
        events.c.raw != ARCHIVED,
        events.c.seq <= _newest_seq - _kept,
        events.c.seq < func.coalesce(_open_seq, _newest_seq + 1),
    )
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
)
"""The first events that are not archived, without the newest ones and those of turns that go on: sid, keep, after_seq, limit."""
