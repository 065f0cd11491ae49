"""A user leaves a SQL store once, by one move, and only where the other store keeps what this one has now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import reduce
from pathlib import Path

import pytest

from actors.errors import StoreConflictError, StoreError
from actors.interfaces.stores import PutState, Write
from actors.layers.placing.rules import digest_with
from actors.layers.stores.records import AddSchedule, Arrival, SetDueTime, UserPlace
from actors.layers.stores.schedule import SchedulePlan, ScheduleRow, Timing
from actors.messages.codec import encode
from actors.messages.content import Content
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import S1, event, fill_sessions, turn

APP, USER = S1.app, S1.user
PLAN = encode(SchedulePlan(timing=Timing(every_s=60), content=Content.of_text("go")))
DAILY = ScheduleRow(key=S1, name="daily", id="1", due_s=60, raw=PLAN)


class Stores:
    """Two stores, the first of which has a user.

    Attributes:
        first, second: the stores.
    """

    def __init__(self, first: SqlSessionStore, second: SqlSessionStore) -> None:
        self.first = first
        self.second = second
        for store in (first, second):
            store.open()
        fill_sessions(first, S1, length=5)
        first.commit([AddSchedule(S1, DAILY), PutState(SessionKey(APP, USER, ""), {"n": 1})])

    def parts(self) -> list[bytes]:
        """What the first store has."""
        found, after = [], b""
        while (part := self.first.user_rows(APP, USER, after))[1]:
            found.append(part[0])
            after = part[2]
        return found

    def stage(self, token: str, replaces: str = "", parts: list[bytes] | None = None) -> bytes:
        """Have the second one keep parts. Returns their digest."""
        self.second.begin_arrival(APP, Arrival(USER, token, 0), replaces)
        for number, raw in enumerate(self.parts() if parts is None else parts, start=1):
            self.second.stage(APP, USER, token, number, raw)
        return self.second.arrival_digest(APP, USER, token)

    def leave(self, token: str, digest: bytes) -> None:
        """Have the user leave the first one."""
        self.first.leave(APP, USER, UserPlace(1, token), digest, b"")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    is_file = request.param == "sqlite"
    urls = [f"sqlite:///{tmp_path}/{name}.db" if is_file else own_tables(request.getfixturevalue("server")) for name in "ab"]
    with ExitStack() as stack:
        made = Stores(*map(SqlSessionStore, urls))
        for store in (made.first, made.second):
            stack.callback(store.close)
        yield made


CHANGES: dict[str, Callable[[], Write]] = {
    "a row more": lambda: event(S1, 6, "root"),
    "a row less": lambda: PutState(SessionKey(APP, USER, ""), {}, ("n",)),
    "in place, a schedule": lambda: SetDueTime(S1, "daily", "1", None, paused=True),
    "in place, a turn": lambda: turn(S1, "e-1", "cancelled", first_seq=1),
    "in place, a state": lambda: PutState(S1, {"seen": 99}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_user_whose_rows_have_changed_since_they_were_read_stays(stores: Stores, change: str) -> None:
    stores.first.commit([turn(S1, "e-1", first_seq=1), PutState(S1, {"seen": 1})])
    digest = stores.stage("move")
    stores.first.commit([CHANGES[change]()])
    now = stores.parts()
    with pytest.raises(StoreError, match="is not what was read: nothing is moved"):
        stores.leave("move", digest)
    assert stores.parts() == now
    assert stores.first.placement(APP, USER) is None


def test_a_user_of_whom_the_other_store_does_not_keep_all_stays(stores: Stores) -> None:
    now = stores.parts()
    for kept in (now[:-1], now[1:], [*now, now[-1]], now[::-1]):
        digest = stores.stage("move", parts=kept)
        with pytest.raises(StoreError, match="is not what was read"):
            stores.leave("move", digest)
    assert stores.parts() == now


def test_a_user_leaves_once_and_by_one_move(stores: Stores) -> None:
    digest = stores.stage("move")
    assert digest == reduce(digest_with, stores.parts(), b"")
    stores.leave("move", digest)
    # The reply was lost.
    stores.leave("move", digest)
    assert stores.first.placement(APP, USER) == UserPlace(1, "move")
    assert stores.parts() == []
    for token, of_parts in (("another", digest), ("another", b"")):
        with pytest.raises(StoreError, match="is not what was read"):
            stores.leave(token, of_parts)
    stores.second.admit(APP, USER, "move")
    assert [row.name for row in stores.second.schedules(APP, USER)] == ["daily"]
    assert stores.second.arrivals(APP) == []
    # Back again: the note goes.
    stores.first, stores.second = stores.second, stores.first
    stores.leave("back", stores.stage("back"))
    stores.second.admit(APP, USER, "back")
    assert stores.second.placement(APP, USER) is None
    assert stores.first.placement(APP, USER) == UserPlace(1, "back")


def test_what_is_kept_for_a_move_is_replaced_only_by_one_that_names_it(stores: Stores) -> None:
    stores.stage("first")
    with pytest.raises(StoreConflictError):
        stores.stage("late")
    with pytest.raises(StoreConflictError):
        stores.stage("late", replaces="another")
    digest = stores.stage("second", replaces="first")
    for refused in (
        lambda: stores.second.stage(APP, USER, "first", 1, b""),
        lambda: stores.second.arrival_digest(APP, USER, "first"),
        lambda: stores.second.staged(APP, USER, "first"),
        lambda: stores.second.admit(APP, USER, "first"),
    ):
        with pytest.raises(StoreConflictError):
            refused()
    stores.second.drop_arrival(APP, USER, "first")
    assert stores.second.arrival_digest(APP, USER, "second") == digest
    stores.second.drop_arrival(APP, USER, "second")
    assert stores.second.arrivals(APP) == []
