"""What every session store must do. Inherit the class and give it a fixture `store` that yields an opened, lasting one."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.errors import NotEncodableError, SessionExistsError, StoreConflictError, StoreError
from actors.interfaces.stores import (
    AddEvent,
    CreateSession,
    HideEvents,
    PutState,
    PutTurn,
    RemoveSession,
    TurnFilter,
    TurnRow,
    Write,
)
from actors.layers.stores.parts import SessionStore
from actors.messages.json_types import JsonObject
from actors.messages.session import SessionKey, SessionPlace
from tests.support.stores.plain_session_store import PlainStore
from tests.support.stores.store_writes import APP, CALLS, INVOCATIONS, OTHER, S1, S2, any_write, event, fill_sessions, seqs, turn
from tests.support.tries import tries

EVENT_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"after_seq": 2},
    {"limit": 2},
    {"limit": 0},
    {"limit": 2, "newest": True},
    {"newest": True},
    {"after_s": 3.0},
    {"after_seq": 1, "after_s": 2.0, "limit": 1, "newest": True},
    {"before_seq": 3},
    {"before_seq": 5, "after_seq": 1, "limit": 2, "newest": True},
)


def authors_of(store: SessionStore, key: SessionKey) -> tuple[tuple[str, int], ...]:
    """The agents that have spoken in a session, with their places."""
    row = store.session(key)
    assert row is not None
    return row.authors


def assert_same(store: SessionStore, model: SessionStore, app: str, keys: list[SessionKey]) -> None:
    """Everything that can be asked of both has the same answer."""
    for key in keys:
        assert store.session(key) == model.session(key)
        assert store.state(app, key.user) == model.state(app, key.user)
        assert store.undos(key, 2) == model.undos(key, 2)
        for invocation_id in INVOCATIONS:
            assert store.turn(key, invocation_id) == model.turn(key, invocation_id)
        for call_id in CALLS:
            assert store.call(key, call_id) == model.call(key, call_id)
        for options in EVENT_OPTIONS:
            assert store.events(key, **options) == model.events(key, **options)
    for user in (None, "ada", "nobody"):
        ours, theirs = (sorted(of.sessions(app, user), key=lambda row: row.key) for of in (store, model))
        assert ours == theirs
    for before_s in (0.5, 4.5, 12.0, 40.0):
        for user in (None, "ada"):
            old = store.old_sessions(app, user, before_s, limit=9)
            assert old == model.old_sessions(app, user, before_s, limit=9)
            for at, each in enumerate(old):
                assert store.old_sessions(app, user, before_s, limit=1, after=each.place) == old[at + 1 : at + 2]
    assert store.removals(app, None) == model.removals(app, None)
    assert store.removals(app, "bob") == model.removals(app, "bob")
    assert sorted(store.running(app), key=repr) == sorted(model.running(app), key=repr)


class SessionStoreConformance:
    """The contract of `SessionStore`, sentence by sentence."""

    def test_a_session_that_was_never_made_is_not_there(self, store: SessionStore) -> None:
        assert store.session(S1) is None
        assert store.events(S1) == []
        assert store.undos(S1, 1) == []
        assert store.turn(S1, "e-1") is None
        assert store.call(S1, "c-1") is None
        assert store.sessions(APP, None) == []
        assert store.state(APP, "ada") == ({}, {})

    def test_a_new_session_is_empty(self, store: SessionStore) -> None:
        store.commit([CreateSession(S1, 12.5)])
        row = store.session(S1)
        assert row is not None
        assert (row.key, row.head_seq, row.rewinds, row.authors, row.state) == (S1, 0, 0, (), {})
        assert (row.created_s, row.updated_s) == (12.5, 12.5)

    def test_a_session_can_be_made_only_once(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=2)
        with pytest.raises(SessionExistsError, match="'s1'") as caught:
            store.commit([CreateSession(S2, 1.0), CreateSession(S1, 2.0)])
        assert caught.value.args == (APP, "ada", "s1")
        assert store.session(S2) is None
        assert seqs(store.events(S1)) == [1, 2]
        with pytest.raises(SessionExistsError, match="'s2'"):
            store.commit([CreateSession(OTHER, 1.0), CreateSession(S2, 1.0), CreateSession(S2, 1.0)])
        assert store.session(OTHER) is None

    def test_many_sessions_are_made_at_once_each_with_its_own_events(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=1)
        store.commit([RemoveSession(S1)])
        keys = [SessionKey(APP, f"user-{number}", "s") for number in range(150)]
        store.commit([write for key in keys for write in (CreateSession(key, 2.0), event(key, 1, raw=key.user.encode()))])
        assert [store.events(key) for key in keys] == [[(1, key.user.encode())] for key in keys]
        assert store.session(S1) is None
        store.commit([CreateSession(S1, 3.0), RemoveSession(S1), CreateSession(S1, 4.0), CreateSession(S2, 4.0)])
        again = store.session(S1)
        assert again is not None
        assert (again.created_s, store.events(S1)) == (4.0, [])
        if not isinstance(store, PlainStore):
            missing = [SessionKey(APP, f"user-{number}", "t") for number in range(150)]
            asked = [key for pair in zip(keys, missing, strict=True) for key in pair]
            for count in (1, 2, 8, 9, 64, 65, 73, 300):
                assert sorted(store.may_exist(asked[:count]), key=asked.index) == asked[:count:2]

    def test_sessions_that_are_there_are_found_among_others(self, store: SessionStore) -> None:
        if isinstance(store, PlainStore):
            pytest.skip("it looks sessions up one by one")
        missing = [SessionKey(APP, "ada", "s-none"), SessionKey(APP, "nobody", "s1"), SessionKey("other-app", "ada", "s1")]
        assert list(store.may_exist([S1, *missing])) == []
        fill_sessions(store, S1, OTHER)
        assert set(store.may_exist([missing[0], OTHER, *missing[1:], S1])) == {S1, OTHER}
        assert list(store.may_exist([S1])) == [S1]
        assert list(store.may_exist([missing[0]])) == []

    def test_two_users_may_have_sessions_of_one_id(self, store: SessionStore) -> None:
        fill_sessions(store, S1, OTHER)
        store.commit([event(S1, 1, raw=b"ada's"), event(OTHER, 1, raw=b"bob's")])
        assert store.events(S1) == [(1, b"ada's")]
        assert store.events(OTHER) == [(1, b"bob's")]

    def test_events_come_back_byte_for_byte_in_the_order_of_their_places(self, store: SessionStore) -> None:
        raws = [b"\x00\xff", bytes(range(256)) * 8192, b"x"]
        fill_sessions(store, S1)
        store.commit([event(S1, seq, raw=raw) for seq, raw in enumerate(raws, start=1)])
        assert store.events(S1) == list(enumerate(raws, start=1))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"after_seq": 3}, [4, 5, 6]),
            ({"after_seq": 6}, []),
            ({"limit": 2}, [1, 2]),
            ({"limit": 2, "newest": True}, [5, 6]),
            ({"limit": 0}, []),
            ({"limit": 0, "newest": True}, []),
            ({"newest": True}, [1, 2, 3, 4, 5, 6]),
            ({"limit": 99, "newest": True}, [1, 2, 3, 4, 5, 6]),
            ({"after_s": 5.0}, [5, 6]),
            ({"after_seq": 1, "after_s": 3.0, "limit": 2}, [3, 4]),
            ({"after_seq": 1, "after_s": 3.0, "limit": 2, "newest": True}, [5, 6]),
        ],
    )
    def test_a_part_of_the_log_can_be_asked_for(self, store: SessionStore, options: dict[str, Any], expected: list[int]) -> None:
        fill_sessions(store, S1, length=6)
        assert seqs(store.events(S1, **options)) == expected

    @pytest.mark.parametrize(
        ("write", "reason"),
        [(event(S2, 2, id="new"), "place 2"), (event(S2, 9, id="id-1"), "'id-1'"), (event(S2, 2), "'id-2'")],
    )
    def test_a_taken_place_or_id_is_a_conflict_that_names_the_session_and_stores_nothing(
        self, store: SessionStore, write: AddEvent, reason: str
    ) -> None:
        fill_sessions(store, S1, S2, length=2)
        with pytest.raises(StoreConflictError, match=reason) as caught:
            store.commit([event(S1, 3), turn(S1), PutState(S1, {"k": 1}), write])
        assert caught.value.args[0] == "s2"
        assert (seqs(store.events(S1)), seqs(store.events(S2))) == ([1, 2], [1, 2])
        assert store.turn(S1, "e-1") is None
        assert store.session(S1).state == {}  # type: ignore[union-attr]

    def test_two_events_of_one_batch_cannot_have_one_place(self, store: SessionStore) -> None:
        with pytest.raises(StoreConflictError, match="place 1"):
            store.commit([CreateSession(S1, 1.0), event(S1, 1, id="a"), event(S1, 1, id="b")])
        assert store.session(S1) is None

    @pytest.mark.parametrize("write", [event(S2, 1), turn(S2), PutState(S2, {"k": 1}), HideEvents(S2, 1, 2)])
    def test_a_write_to_a_session_that_is_not_there_is_a_conflict(self, store: SessionStore, write: Write) -> None:
        fill_sessions(store, S1)
        with pytest.raises(StoreConflictError, match="not there"):
            store.commit([event(S1, 1), write])
        assert store.events(S1) == []

    def test_the_store_works_on_after_a_commit_that_failed(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=1)
        with pytest.raises(StoreConflictError):
            store.commit([CreateSession(S2, 1.0), event(S1, 1)])
        store.commit([CreateSession(S2, 1.0), event(S2, 1), event(S1, 2)])
        assert (seqs(store.events(S1)), seqs(store.events(S2))) == ([1, 2], [1])

    def test_an_empty_commit_does_nothing(self, store: SessionStore) -> None:
        store.commit([])
        assert store.sessions(APP, None) == []

    def test_agents_are_told_the_most_recent_first_with_their_last_place(self, store: SessionStore) -> None:
        fill_sessions(store, S1, OTHER, length=7)
        assert authors_of(store, S1) == (("a", 6), ("b", 4))
        store.commit([event(S1, 8, "@b"), event(S1, 9, "b"), event(S1, 10, "user")])
        assert authors_of(store, S1) == (("b", 9), ("a", 6))

    def test_agents_stay_in_their_order_where_it_is_not_said_again_who_speaks(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([event(S1, 1, "a"), event(S1, 2, "b"), replace(event(S1, 3, "b"), takes_floor=False)])
        store.commit([replace(event(S1, 4, "b"), takes_floor=False)])
        assert [author for author, _ in authors_of(store, S1)] == ["b", "a"]
        store.commit([event(S1, 5, "a"), replace(event(S1, 6, "a"), takes_floor=False)])
        assert [author for author, _ in authors_of(store, S1)] == ["a", "b"]

    def test_agents_whose_events_are_hidden_are_where_they_were_before_them(self, store: SessionStore) -> None:
        fill_sessions(store, S1, OTHER)
        spoken = ("a", "b", "user", "a", "c", "b", "b")
        store.commit([event(key, seq, author) for key in (S1, OTHER) for seq, author in enumerate(spoken, 1)])
        store.commit([HideEvents(S1, 6, 7)])
        assert authors_of(store, S1) == (("c", 5), ("a", 4), ("b", 2))
        store.commit([HideEvents(S1, 4, 7)])
        assert authors_of(store, S1) == (("b", 2), ("a", 1))
        store.commit([event(S1, 8, "c"), HideEvents(S1, 2, 8), event(S1, 9, "d")])
        assert authors_of(store, S1) == (("d", 9), ("a", 1))
        store.commit([HideEvents(S1, 1, 9)])
        assert authors_of(store, S1) == ()
        assert authors_of(store, OTHER) == (("b", 7), ("c", 5), ("a", 4))

    def test_hidden_events_are_not_seen_but_keep_their_places(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=6)
        store.commit([HideEvents(S1, 3, 6), event(S1, 7, "user")])
        row = store.session(S1)
        assert row is not None
        assert (row.head_seq, row.rewinds, row.authors) == (7, 1, (("a", 2),))
        assert seqs(store.events(S1)) == [1, 2, 7]
        assert seqs(store.events(S1, limit=2, newest=True)) == [2, 7]
        with pytest.raises(StoreConflictError):
            store.commit([event(S1, 4, id="new")])

    def test_an_event_can_be_hidden_by_the_commit_that_adds_it(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([event(S1, 1), event(S1, 2), HideEvents(S1, 2, 2), event(S1, 3)])
        assert seqs(store.events(S1)) == [1, 3]

    @pytest.mark.parametrize("write", [event(S1, 2), turn(S1), PutState(S1, {"k": 1}), HideEvents(S1, 1, 1)])
    def test_a_commit_cannot_write_to_the_session_it_removed(self, store: SessionStore, write: Write) -> None:
        fill_sessions(store, S1, length=1)
        with pytest.raises(StoreConflictError, match="not there"):
            store.commit([RemoveSession(S1), write])
        assert seqs(store.events(S1)) == [1]

    def test_hiding_everything_leaves_no_author(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=4)
        store.commit([HideEvents(S1, 1, 4)])
        assert store.session(S1).authors == ()  # type: ignore[union-attr]

    def test_undos_are_told_newest_first_whether_visible_or_not(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([event(S1, seq, undo=b"" if seq == 3 else b"undo-%d" % seq) for seq in range(1, 6)])
        store.commit([HideEvents(S1, 4, 4)])
        assert store.undos(S1, 2) == [(5, b"undo-5"), (4, b"undo-4"), (2, b"undo-2")]

    def test_the_last_record_of_a_turn_counts(self, store: SessionStore) -> None:
        row = TurnRow(
            invocation_id="e-1", status="finished", epoch=3, first_seq=1, opened_seq=1, agent="writer", outcome=b"\x00", temp=b"t"
        )
        fill_sessions(store, S1)
        store.commit([turn(S1), event(S1, 1), PutTurn(S1, row, 77.0)])
        assert store.turn(S1, "e-1") == row
        assert store.turn(S1, "e-2") is None
        assert store.session(S1).updated_s == 77.0  # type: ignore[union-attr]

    def test_records_that_leave_the_time_of_their_session_as_it_is_are_stored(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([event(S1, 1), turn(S1, at_s=77.0)])
        store.commit([replace(turn(S1, "e-2", at_s=77.0), changes_time=False)])
        store.commit([turn(S1, "e-2", at_s=78.0), replace(turn(S1, "e-3", at_s=78.0), changes_time=False)])
        assert store.session(S1).updated_s == 78.0  # type: ignore[union-attr]
        assert [store.turn(S1, each) is not None for each in ("e-1", "e-2", "e-3")] == [True] * 3

    def test_a_rewound_turn_is_not_found_until_its_id_is_used_again(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([event(S1, 1), turn(S1, "e-1"), event(S1, 2), turn(S1, "e-2", first_seq=2)])
        store.commit([HideEvents(S1, 2, 2)])
        assert store.turn(S1, "e-1") is not None
        assert store.turn(S1, "e-2") is None
        again = turn(S1, "e-2", first_seq=3, begun_s=9.0)
        store.commit([event(S1, 3), again])
        assert store.turn(S1, "e-2") == again.row

    def test_turns_are_listed_from_the_newest_by_session_by_user_and_by_app(self, store: SessionStore) -> None:
        elsewhere = SessionKey("elsewhere", "ada", "s1")
        fill_sessions(store, S1, S2, OTHER, elsewhere, length=4)
        begun = {
            "e-1": (S1, "finished"),
            "e-2": (S2, "paused"),
            "e-3": (OTHER, "failed"),
            "e-4": (S1, "running"),
            "e-5": (elsewhere, "paused"),
        }
        for at_s, (invocation_id, (key, status)) in enumerate(begun.items(), start=1):
            store.commit([turn(key, invocation_id, status, begun_s=float(at_s), last_seq=2)])

        def listed(app: str = APP, **wanted: Any) -> list[str]:
            return [row.invocation_id for _, row in store.turns(TurnFilter(app=app, **wanted))]

        assert listed() == ["e-4", "e-3", "e-2", "e-1"]
        assert listed("elsewhere") == ["e-5"]
        assert listed(limit=2) == ["e-4", "e-3"]
        assert listed(user="ada") == ["e-4", "e-2", "e-1"]
        assert listed(user="ada", limit=1) == ["e-4"]
        assert listed(user="ada", limit=2, before=(4.0, "e-4")) == ["e-2", "e-1"]
        assert listed(user="ada", session="s1") == ["e-4", "e-1"]
        assert listed(user="ada", session="s1", limit=1, before=(4.0, "e-4")) == ["e-1"]
        assert listed(before=(3.0, "e-3")) == ["e-2", "e-1"]
        for status, expected in [
            ("paused", ["e-2"]),
            ("failed", ["e-3"]),
            ("cancelled", []),
            ("running", ["e-4"]),
            ("finished", ["e-1"]),
        ]:
            assert listed(status=status) == expected
        counted = {
            (app, status): store.count_turns(app, status) for app in (APP, "elsewhere") for status in ("running", "paused")
        }
        assert list(counted.values()) == [1, 1, 0, 1]
        assert listed(user="ada", status="paused") == ["e-2"]
        assert listed(user="bob", status="paused") == listed(user="nobody") == listed(user="ada", session="s9") == []
        [(key, row), *_] = store.turns(TurnFilter(app=APP))
        assert (key, row.begun_s, row.last_seq) == (S1, 4.0, 4), "a running turn reaches to the newest event"
        assert store.turns(TurnFilter(app=APP, status="paused"))[0][1].last_seq == 2
        store.commit([HideEvents(S1, 1, 4)])
        assert listed(user="ada") == ["e-2"]
        assert (store.count_turns(APP, "running"), store.count_turns(APP, "paused")) == (0, 1)

    def test_turns_that_began_at_the_same_time_are_all_listed_page_by_page(self, store: SessionStore) -> None:
        fill_sessions(store, S1, S2)
        ids = [f"e-{number}" for number in range(7)]
        store.commit([turn(S1 if number % 2 else S2, each, "finished", begun_s=1.0) for number, each in enumerate(ids)])
        for wanted in (TurnFilter(app=APP, limit=2), TurnFilter(app=APP, user="ada", limit=2)):
            found: list[str] = []
            before: tuple[float, str] | None = None
            while page := store.turns(msgspec.structs.replace(wanted, before=before)):
                found += [row.invocation_id for _, row in page]
                before = (1.0, found[-1])
            assert found == ids[::-1]

    def test_only_running_turns_of_the_app_are_running(self, store: SessionStore) -> None:
        foreign = SessionKey("bank", "ada", "s1")
        fill_sessions(store, S1, OTHER, foreign, length=2)
        ended = [turn(S1, status, status) for status in ("paused", "finished", "failed", "cancelled")]
        store.commit([*ended, turn(S1, "e-1"), turn(OTHER, "e-2"), turn(foreign, "e-3")])
        found = {(key, row.invocation_id) for key, row in store.running(APP)}
        assert found == {(S1, "e-1"), (OTHER, "e-2")}
        store.commit([turn(S1, "e-1", "finished")])
        assert [key for key, _ in store.running(APP)] == [OTHER]

    def test_the_newest_visible_call_of_an_id_is_found(self, store: SessionStore) -> None:
        fill_sessions(store, S1, S2)
        store.commit([event(S1, 1, "a", calls=("c-1", "c-2")), event(S1, 2, "b", calls=("c-1", "c-1"), invocation_id="e-2")])
        newest = store.call(S1, "c-1")
        assert newest is not None
        assert (newest.call_id, newest.seq, newest.author, newest.invocation_id) == ("c-1", 2, "b", "e-2")
        store.commit([HideEvents(S1, 2, 2)])
        assert store.call(S1, "c-1").seq == 1  # type: ignore[union-attr]
        assert store.call(S1, "c-3") is None
        assert store.call(S2, "c-1") is None

    def test_each_scope_of_state_is_its_own(self, store: SessionStore) -> None:
        fill_sessions(store, S1, S2)
        user, app = SessionKey(APP, "ada", ""), SessionKey(APP, "", "")
        store.commit([PutState(S1, {"k": "session"}), PutState(user, {"k": "user"}), PutState(app, {"k": "app"})])
        assert store.session(S1).state == {"k": "session"}  # type: ignore[union-attr]
        assert store.session(S2).state == {}  # type: ignore[union-attr]
        assert store.state(APP, "ada") == ({"k": "app"}, {"k": "user"})
        assert store.state(APP, "bob") == ({"k": "app"}, {})
        assert store.state("bank", "ada") == ({}, {})

    def test_keys_of_state_can_be_overwritten_and_removed_in_order(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        store.commit([PutState(S1, {"a": 1, "b": 1, "c": 1})])
        store.commit([PutState(S1, {"a": 2}, ("b", "never")), PutState(S1, {"b": 3}, ("c",)), PutState(S1, {}, ("a",))])
        assert store.session(S1).state == {"b": 3}  # type: ignore[union-attr]

    def test_a_value_without_a_wire_form_is_refused_and_nothing_is_stored(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        with pytest.raises(NotEncodableError):
            store.commit([event(S1, 1), PutState(S1, {"k": object()})])
        assert store.events(S1) == []
        store.commit([event(S1, 1)])

    def test_removing_a_session_leaves_what_others_see(self, store: SessionStore) -> None:
        fill_sessions(store, S1, S2, length=3)
        store.commit([PutState(S1, {"k": 1}), turn(S1), PutState(SessionKey(APP, "ada", ""), {"u": 1})])
        store.commit([event(S1, 4, calls=("c-1",)), RemoveSession(S1)])
        assert store.session(S1) is None
        assert store.events(S1) == []
        assert [row.key for row in store.sessions(APP, None)] == [S2]
        assert store.running(APP) == []
        assert store.state(APP, "ada") == ({}, {"u": 1})
        assert seqs(store.events(S2)) == [1, 2, 3]

    def test_a_session_made_again_has_nothing_of_the_removed_one(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=3)
        store.commit([PutState(S1, {"k": 1}), turn(S1), RemoveSession(S1), CreateSession(S1, 5.0), event(S1, 1, "z")])
        row = store.session(S1)
        assert row is not None
        assert (row.head_seq, row.authors, row.state, row.created_s) == (1, (("z", 1),), {}, 5.0)
        assert store.turn(S1, "e-1") is None

    def test_a_write_to_a_session_that_the_same_commit_creates_later_is_refused_with_all_of_it(self, store: SessionStore) -> None:
        for early in (HideEvents(S1, 1, 1), event(S1, 1, "ada"), turn(S1)):
            with pytest.raises(StoreConflictError):
                store.commit([early, CreateSession(S1, 1.0), CreateSession(S2, 1.0)])
            assert store.session(S1) is None
            assert store.session(S2) is None

    def test_removing_a_missing_session_is_no_error(self, store: SessionStore) -> None:
        store.commit([RemoveSession(S1)])
        assert store.session(S1) is None

    def test_sessions_are_listed_the_one_updated_last_first(self, store: SessionStore) -> None:
        fill_sessions(store, S1, S2, OTHER, SessionKey("bank", "ada", "s1"), length=2)
        store.commit([turn(S1, at_s=30), turn(OTHER, at_s=20), turn(S2, at_s=10), PutState(S1, {"k": [1]})])
        assert [row.key for row in store.sessions(APP, None)] == [S1, OTHER, S2]
        rows = store.sessions(APP, "ada")
        assert [(row.key, row.head_seq, row.authors, row.state) for row in rows] == [(S1, 2, (), {"k": [1]}), (S2, 2, (), {})]

    def test_sessions_are_listed_by_pages(self, store: SessionStore) -> None:
        keys = [SessionKey(APP, f"u{number % 3}", f"s{number}") for number in range(20)]
        fill_sessions(store, *keys, SessionKey("bank", "u0", "s0"), length=1)
        store.commit([turn(key, at_s=100 - number) for number, key in enumerate(keys)])
        store.commit([PutState(key, {"k": number}) for number, key in enumerate(keys)])
        for user in (None, "u1", "nobody"):
            whole = store.sessions(APP, user)
            assert [row.key for row in whole] == [key for key in keys if user in (None, key.user)]
            for limit in (0, 1, 5, 100):
                assert store.sessions(APP, user, limit=limit) == whole[:limit]
            for number, row in enumerate(whole, start=1):
                place = SessionPlace(row.updated_s, row.key.user, row.key.session)
                assert store.sessions(APP, user, limit=5, before=place) == whole[number : number + 5]
                assert store.sessions(APP, user, before=place) == whole[number:]

    def test_sessions_that_were_updated_at_one_time_are_listed_by_pages(self, store: SessionStore) -> None:
        keys = [SessionKey(APP, user, session) for user in ("b", "a", "é") for session in ("s2", "s1", "s10")]
        fill_sessions(store, *keys, length=1)
        store.commit([turn(key, at_s=7) for key in keys])
        for user in (None, "a"):
            expected = sorted((key for key in keys if user in (None, key.user)), reverse=True)
            found: list[SessionKey] = []
            while page := store.sessions(
                APP, user, limit=2, before=SessionPlace(7, found[-1].user, found[-1].session) if found else None
            ):
                found += [row.key for row in page]
            assert found == expected

    def test_no_session_is_missed_or_comes_twice_when_others_are_written_between_two_pages(self, store: SessionStore) -> None:
        keys = [SessionKey(APP, "ada", f"s{number}") for number in range(6)]
        fill_sessions(store, *keys, length=1)
        store.commit([turn(key, at_s=100 - number) for number, key in enumerate(keys)])
        last = store.sessions(APP, None, limit=3)[-1]
        store.commit([turn(keys[0], at_s=200), turn(keys[5], at_s=201), CreateSession(SessionKey(APP, "bob", "new"), 202)])
        page = store.sessions(APP, None, limit=3, before=SessionPlace(last.updated_s, last.key.user, last.key.session))
        assert [row.key for row in page] == [keys[3], keys[4]]

    def test_many_sessions_are_written_in_one_commit(self, store: SessionStore) -> None:
        keys = [SessionKey(APP, "ada", f"many-{number}") for number in range(100)]
        store.commit([CreateSession(key, 1.0) for key in keys])
        store.commit([write for seq in (1, 2, 3) for key in keys for write in (event(key, seq, key.session), turn(key))])
        for key in keys:
            assert store.session(key).authors == ((key.session, 3),)  # type: ignore[union-attr]
        assert len(store.running(APP)) == 100

    # Each example has an app of its own, so they may share a store; each kind of store runs the same examples.
    @settings(
        max_examples=tries(60),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data())
    def test_any_run_of_writes_leaves_what_the_plain_store_has(self, store: SessionStore, data: st.DataObject) -> None:
        app = f"app-{uuid.uuid4().hex}"
        keys = [SessionKey(app, user, session) for user in ("ada", "bob") for session in ("s1", "s2")]
        model = PlainStore()
        made: list[Write] = [CreateSession(key, 1.0) for key in data.draw(st.sets(st.sampled_from(keys), min_size=2))]
        for batch in [made, *data.draw(st.lists(st.lists(any_write(app), max_size=5), max_size=12))]:
            refused = _outcome(model, batch)
            assert _outcome(store, batch) is refused
            assert_same(store, model, app, keys)


def _outcome(store: SessionStore, batch: list[Write]) -> bool:
    try:
        store.commit(batch)
    except (SessionExistsError, StoreConflictError):
        return True
    return False


def read_states(store: SessionStore, app: str, users: list[str]) -> dict[str, JsonObject]:
    """The app's state, by "", and those of users."""
    return {user: state.values for user, state in store.changed_states(app, dict.fromkeys(["", *users], -1)).items()}


class LastingStoreConformance(SessionStoreConformance):
    """For stores that keep everything when they are closed."""

    def test_states_of_many_users_are_those_of_each(self, store: SessionStore) -> None:
        users = [f"u{number}" for number in range(1_200)]
        store.commit([PutState(SessionKey(APP, user, ""), {"k": user}) for user in users[::2]])
        store.commit([PutState(SessionKey(APP, "", ""), {"a": 1}), PutState(SessionKey("bank", "u0", ""), {"k": "bank"})])
        expected = {"": {"a": 1}, **{user: {} for user in users}, **{user: {"k": user} for user in users[::2]}}
        assert read_states(store, APP, users) == expected
        assert read_states(store, APP, []) == {"": {"a": 1}}
        assert read_states(store, "none", ["u0"]) == {"": {}, "u0": {}}

    def test_everything_is_there_after_closing_and_opening(self, store: SessionStore) -> None:
        fill_sessions(store, S1, length=4)
        store.commit([PutState(S1, {"k": {"deep": [1, None]}}), turn(S1), HideEvents(S1, 4, 4)])
        before = store.session(S1)
        store.close()
        store.open()
        assert before is not None
        assert store.session(S1) == before
        assert seqs(store.events(S1)) == [1, 2, 3]
        store.commit([event(S1, 5)])

    def test_closing_twice_is_no_error_and_a_closed_store_says_so(self, store: SessionStore) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="not open"):
            store.session(S1)
        with pytest.raises(StoreError, match="not open"):
            store.commit([CreateSession(S1, 1.0)])

    def test_a_text_that_no_database_can_hold_is_a_store_error(self, store: SessionStore) -> None:
        fill_sessions(store, S1)
        with pytest.raises(StoreError):
            store.commit([event(S1, 1), event(S1, 2, "lone \ud800 surrogate")])
        with pytest.raises(StoreError):
            store.turn(S1, "\ud800")
        assert store.events(S1) == []
