"""What is about to be written is found by session and by shared state, however much else is under way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StoreError
from actors.interfaces.stores import CreateSession, PutState, Write
from actors.messages.session import SessionKey
from actors.session.log.logs import SessionLogs
from actors.session.log.reader import LogReader
from actors.session.log.shared_state import SharedStates
from actors.session.store.access import StoreAccess
from actors.session.store.group_commit import GroupCommit, PendingWrites
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.counted_lines import counted_lines
from tests.support.fixtures.session_fixture import settled
from tests.support.tries import tries

SESSIONS = [SessionKey("app", user, name) for user in ("ada", "bob") for name in ("s1", "s2")]
SCOPES = [SessionKey("app", "", ""), SessionKey("app", "ada", ""), SessionKey("app", "bob", "")]
NAMES = st.sampled_from("abc")


def puts(scope: SessionKey) -> st.SearchStrategy[PutState]:
    return st.builds(PutState, st.just(scope), st.dictionaries(NAMES, st.integers(0, 9)), st.lists(NAMES, max_size=1).map(tuple))


def writes_of(session: SessionKey) -> st.SearchStrategy[list[PutState]]:
    scopes = [session, SessionKey(session.app, session.user, ""), SessionKey(session.app, "", "")]
    return st.lists(st.sampled_from(scopes).flatmap(puts), max_size=3)


SUBMITS = st.sampled_from(SESSIONS).flatmap(lambda session: st.tuples(st.just(session), writes_of(session)))
STEPS = st.lists(SUBMITS | st.sampled_from(["commit", "fail"]) | st.sampled_from(SESSIONS), max_size=25)
"""Requests, ends of the transaction under way, and sessions that are read again."""


class SteppedDisk:
    """Ends one transaction at a time, well or badly."""

    def __init__(self) -> None:
        self.under_way: list[asyncio.Future[None]] = []

    async def commit(self, _: Sequence[Write]) -> None:
        self.under_way.append(asyncio.get_running_loop().create_future())
        await self.under_way[-1]

    async def end(self, *, well: bool) -> None:
        """End the transaction under way, if there is one."""
        for transaction in [each for each in self.under_way if not each.done()]:
            transaction.set_result(None) if well else transaction.set_exception(StoreError("full"))
        await settled()


class Walk:
    """Goes over all requests that are not on disk, in order, without those of sessions that have failed."""

    def __init__(self) -> None:
        self.requests: list[tuple[SessionKey, Sequence[PutState], asyncio.Future[None]]] = []
        self._read_again: Counter[SessionKey] = Counter()

    def state(self, scope: SessionKey) -> dict[str, Any]:
        """What the requests make of a shared state that was empty but for one key."""
        state: dict[str, Any] = {"a": "as stored"}
        for session, writes, done in self.requests:
            if done.done() or self._has_failed(session):
                continue
            for write in writes:
                if write.key == scope:
                    state.update(write.values)
                    for name in write.removed:
                        state.pop(name, None)
        return state

    def next_of(self, session: SessionKey) -> asyncio.Future[None] | None:
        """The first request of a session that is not done."""
        return next((done for of, _, done in self.requests if of == session and not done.done()), None)

    def read_again(self, session: SessionKey) -> None:
        """The failures of a session so far are forgiven."""
        self._read_again[session] = self._failures(session)

    def _has_failed(self, session: SessionKey) -> bool:
        return self._failures(session) > self._read_again[session]

    def _failures(self, session: SessionKey) -> int:
        return sum(of == session and done.done() and done.exception() is not None for of, _, done in self.requests)


@settings(max_examples=tries(300), deadline=None)
@given(STEPS)
async def test_what_is_found_is_what_a_walk_over_all_requests_finds(
    steps: list[tuple[SessionKey, list[PutState]] | SessionKey | str],
) -> None:
    disk, walk = SteppedDisk(), Walk()
    commits = GroupCommit(disk.commit)
    for step in steps:
        if isinstance(step, str):
            await disk.end(well=step == "commit")
        elif isinstance(step, SessionKey):
            commits.clear_failure(step)
            walk.read_again(step)
        else:
            session, writes = step
            walk.requests.append((session, writes, commits.submit(session, writes)))
        for scope in SCOPES:
            found: dict[str, Any] = {"a": "as stored"}
            commits.pending.bring_up_to_date(scope, found)
            assert found == walk.state(scope)
        for session in SESSIONS:
            assert commits.pending.next_of(session) is walk.next_of(session)
    while commits.pending:
        await disk.end(well=True)
    assert all(done.done() for _, _, done in walk.requests)
    for _, _, done in walk.requests:
        done.exception()


async def test_a_request_that_its_caller_gave_up_is_still_written_and_not_waited_for() -> None:
    disk = SteppedDisk()
    commits = GroupCommit(disk.commit)
    first, second = (commits.submit(SESSIONS[0], [PutState(SCOPES[0], {"a": number})]) for number in (1, 2))
    await settled()
    first.cancel()
    state: dict[str, Any] = {}
    commits.pending.bring_up_to_date(SCOPES[0], state)
    assert (state, commits.pending.next_of(SESSIONS[0])) == ({"a": 2}, second)
    await disk.end(well=True)
    assert (second.done(), len(commits.pending)) == (True, 0)


@pytest.mark.parametrize("read", ["a state that others change, too", "a state of its own", "what a session waits for"])
async def test_what_is_found_costs_the_same_with_a_hundred_and_with_ten_thousand_requests(read: str) -> None:
    taken: dict[int, int] = {}
    for under_way in (100, 1_000, 10_000):
        disk, counts = SteppedDisk(), Counter[str]()
        commits = GroupCommit(disk.commit)
        for number in range(under_way):
            session = SessionKey("app", f"user {number}", "s")
            user = SessionKey("app", session.user, "")
            commits.submit(session, [CreateSession(session, 1.0), PutState(user, {"a": 1}), PutState(SCOPES[0], {"a": number})])
        found: dict[str, Any] = {}
        with counted_lines(counts):
            if read == "what a session waits for":
                assert commits.pending.next_of(session) is not None
            else:
                commits.pending.bring_up_to_date(user if read == "a state of its own" else SCOPES[0], found)
        assert found or read == "what a session waits for"
        taken[under_way] = counts["lines"]
        await settled()
        await disk.end(well=True)
        assert not commits.pending
    assert taken[100] == taken[1_000] == taken[10_000] > 0


class NoticedCommits(GroupCommit):
    """Tells of each request."""

    def __init__(self, disk: SteppedDisk) -> None:
        super().__init__(disk.commit)
        self.submitted = asyncio.Semaphore(0)

    def submit(self, key: SessionKey, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> asyncio.Future[None]:
        self.submitted.release()
        return super().submit(key, writes, then)


async def test_a_new_session_costs_the_same_however_many_others_are_being_created(tmp_path: Path) -> None:
    taken: dict[int, int] = {}
    for others in (100, 1_000, 3_000):
        disk, counts = SteppedDisk(), Counter[str]()
        access = StoreAccess(SqlSessionStore("sqlite://"), 30.0)
        access.commits = commits = NoticedCommits(disk)
        logs = SessionLogs(access, LogReader(access, ()), SharedStates(access))

        def check(_: object) -> None:
            """Nothing is refused."""

        creating = [asyncio.create_task(logs.create(SessionKey("app", f"{number}", "s"), {}, check)) for number in range(others)]
        for _ in creating:
            await commits.submitted.acquire()
        await settled()
        with counted_lines(counts):
            creating.append(asyncio.create_task(logs.create(SessionKey("app", "the last", "s"), {}, check)))
            await commits.submitted.acquire()
        while not all(each.done() for each in creating):
            await disk.end(well=True)
        await asyncio.gather(*creating)
        await access.close()
        taken[others] = counts["lines"]
    assert taken[100] == taken[1_000] == taken[3_000] > 0


def test_nothing_is_kept_of_what_was_discarded() -> None:
    pending = PendingWrites(lambda _: False)
    assert (len(pending), pending.next_of(SESSIONS[0])) == (0, None)
