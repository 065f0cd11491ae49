"""Which agents have spoken in a session, read from its events again."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from actors.rules.routing.selection import is_selectable
from runtime.stores.sql.schema import authors, events

_NOWHERE = 0
"""In place of a position. Those of events begin with 1."""

_visible = events.c.hidden.is_(False)

# The newest event of the author. The databases walk the log back to it, which is short for an agent that speaks often.
_newest_seq = (
    select(events.c.seq)
    .where(events.c.sid == authors.c.sid, events.c.author == authors.c.author, _visible)
    .order_by(events.c.seq.desc())
    .limit(1)
    .correlate(authors)
    .scalar_subquery()
)
_CORRECT = (
    update(authors)
    .where(authors.c.sid == bindparam("of_sid"), authors.c.seq.between(bindparam("first_seq"), bindparam("last_seq")))
    .values(seq=func.coalesce(_newest_seq, _NOWHERE))
)
_DROP = delete(authors).where(authors.c.sid == bindparam("of_sid"), authors.c.seq == _NOWHERE)

_NEWEST = (
    select(events.c.author, func.max(events.c.seq)).where(events.c.sid == bindparam("of_sid"), _visible).group_by(events.c.author)
)


def correct_authors(connection: Connection, sid: int, first_seq: int, last_seq: int) -> None:
    """Find what agents said last before events of theirs were hidden.

    Args:
        first_seq, last_seq: the positions of the events that were hidden, both included.
    """
    hidden = {"of_sid": sid, "first_seq": first_seq, "last_seq": last_seq}
    if connection.execute(_CORRECT, hidden).rowcount:
        connection.execute(_DROP, {"of_sid": sid})


def derive_authors(connection: Connection, sid: int) -> None:
    """Find all agents that have spoken in a session that is new in this store."""
    newest = connection.execute(_NEWEST, {"of_sid": sid})
    rows = [{"sid": sid, "author": author, "seq": seq} for author, seq in newest if is_selectable(author)]
    if rows:
        connection.execute(insert(authors), rows)
