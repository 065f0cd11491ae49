"""Reads and writes that are done together: in order, each session's failures its own, and what is about to be written found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StoreConflictError, StoreError, StoreUnavailableError
from actors.interfaces.stores import CreateSession, PutState, Write
from actors.messages.session import SessionKey
from actors.session.store.group_commit import GroupCommit, Transaction
from actors.session.store.grouped_reads import AT_ONCE, GroupedReads
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.counted_lines import counted_lines
from tests.support.fixtures.session_fixture import settled
from tests.support.stores.store_writes import S1, event, fill_sessions, turn
from tests.support.tries import tries

KEYS = [SessionKey("app", "ada", name) for name in ("s1", "s2", "s3")]


def write(key: SessionKey, number: int, *, fails: bool = False) -> PutState:
    return PutState(key, {"number": number, "fails": fails})


class Disk:
    """Takes whole transactions, unless one of their writes fails."""

    def __init__(self) -> None:
        self.transactions: list[list[int]] = []
        self.stored: list[tuple[SessionKey, int]] = []
        self.failures = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, writes: Sequence[Write]) -> None:
        await self.gate.wait()
        puts = [each for each in writes if isinstance(each, PutState)]
        if self.failures or any(put.values["fails"] for put in puts):
            self.failures = max(self.failures - 1, 0)
            raise StoreError("full")
        self.transactions.append([put.values["number"] for put in puts])
        self.stored += [(put.key, put.values["number"]) for put in puts]


async def test_what_waits_goes_into_one_transaction_in_order() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    disk.gate.clear()
    first = commits.submit(KEYS[0], [write(KEYS[0], 0)])
    await asyncio.sleep(0)
    others = [commits.submit(KEYS[number % 2], [write(KEYS[number % 2], number)]) for number in range(1, 6)]
    disk.gate.set()
    await asyncio.gather(first, *others)
    assert disk.transactions == [[0], [1, 2, 3, 4, 5]]
    assert commits.commits == 2


async def test_who_waits_may_be_cancelled_but_the_writing_goes_on() -> None:
    disk = Disk()
    disk.gate.clear()
    commits = GroupCommit(disk.commit)
    asked = commits.submit(KEYS[0], [write(KEYS[0], 1)])
    flushing = asyncio.create_task(commits.flush())
    await asyncio.sleep(0)
    asked.cancel()
    flushing.cancel()
    await asyncio.sleep(0)
    later = commits.submit(KEYS[0], [write(KEYS[0], 2)])
    disk.gate.set()
    await later
    await commits.flush()
    assert disk.stored == [(KEYS[0], 1), (KEYS[0], 2)]


async def test_a_writer_that_is_cancelled_before_its_first_step_leaves_what_waits_to_the_next_one() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    before = asyncio.all_tasks()
    first = commits.submit(KEYS[0], [write(KEYS[0], 1)])
    (writer,) = asyncio.all_tasks() - before
    writer.cancel()
    await asyncio.wait([writer])
    async with asyncio.timeout(10):
        await asyncio.gather(first, commits.submit(KEYS[1], [write(KEYS[1], 2)]))
    assert disk.transactions == [[1, 2]]


@settings(max_examples=tries(50))
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 5).map(lambda roll: roll == 0)), max_size=15))
async def test_a_session_never_has_a_hole(requests: list[tuple[SessionKey, bool]]) -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    futures = [commits.submit(key, [write(key, number, fails=fails)]) for number, (key, fails) in enumerate(requests)]
    if futures:
        await asyncio.wait(futures)
    for key in KEYS:
        mine = [(number, fails) for number, (owner, fails) in enumerate(requests) if owner == key]
        until = next((place for place, (_, fails) in enumerate(mine) if fails), len(mine))
        stored = [number for owner, number in disk.stored if owner == key]
        assert stored == [number for number, _ in mine[:until]]
        assert [futures[number].exception() is None for number, _ in mine] == [True] * until + [False] * (len(mine) - until)


async def test_a_store_that_is_away_is_not_asked_again_for_each_request() -> None:
    tries = 0

    async def commit(_: Sequence[Write]) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError("store", "away")

    commits = GroupCommit(commit)
    futures = [commits.submit(key, [write(key, 1)]) for key in KEYS]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailableError] * len(KEYS)
    assert tries == 1


class SlowDisk(Disk):
    """Lets others work while it does."""

    async def commit(self, writes: Sequence[Write]) -> None:
        await asyncio.sleep(0)
        await super().commit(writes)


async def test_what_is_submitted_later_is_not_waited_for() -> None:
    disk = SlowDisk()
    commits = GroupCommit(disk.commit)
    numbers = iter(range(1, 1_000))

    def go_on() -> None:
        # As under load: before one is on disk the next one waits.
        if (number := next(numbers, None)) is not None:
            commits.submit(KEYS[1], [write(KEYS[1], number)], go_on)

    commits.submit(KEYS[0], [write(KEYS[0], 0)], go_on)
    await commits.flush()
    assert disk.transactions[:1] == [[0]]
    assert commits.commits <= 3
    await commits.drain()
    assert commits.commits == 1_000


async def test_a_flush_waits_for_all_that_was_submitted_before_it() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit)
    disk.gate.clear()
    first = commits.submit(KEYS[0], [write(KEYS[0], 0)])
    await asyncio.sleep(0)
    second = commits.submit(KEYS[1], [write(KEYS[1], 1)])
    flushing = asyncio.create_task(commits.flush())
    await asyncio.sleep(0)
    assert not flushing.done()
    disk.gate.set()
    await flushing
    assert (first.done(), second.done(), disk.transactions) == (True, True, [[0], [1]])


async def test_a_defect_in_a_callback_keeps_no_other_from_hearing_what_became_of_it() -> None:
    commits = GroupCommit(Disk().commit)

    def fail() -> None:
        raise ValueError("a defect")

    failing = commits.submit(KEYS[0], [write(KEYS[0], 0)], fail)
    other = commits.submit(KEYS[1], [write(KEYS[1], 1)])
    with pytest.raises(ValueError, match="a defect"):
        await failing
    await other


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(f"sqlite:///{path}", lock_timeout_s=0.05)
    store.open()
    yield store
    store.close()


def test_what_others_have_gone_on_from_is_a_conflict(store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=1)
    message = event(S1, 2)
    store.commit([message, event(S1, 3)])
    with pytest.raises(StoreConflictError):
        Transaction(store, [message, turn(S1, epoch=2)])()
    assert store.turn(S1, turn(S1).row.invocation_id) is None


def test_another_event_with_the_same_id_is_a_conflict(store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=1)
    store.commit([event(S1, 2, id="one", raw=b"theirs")])
    with pytest.raises(StoreConflictError):
        Transaction(store, [event(S1, 2, id="one", raw=b"ours")])()


class Reads:
    """Reads the squares of numbers; negative ones cannot be read."""

    def __init__(self, error: StoreError | None = None) -> None:
        self.groups: list[list[int]] = []
        self.has_begun = asyncio.Event()
        self._error = error or StoreError("negative")
        self.grouped = GroupedReads(self.read)

    async def read(self, keys: Sequence[int]) -> Mapping[int, int]:
        self.groups.append(list(keys))
        self.has_begun.set()
        await asyncio.sleep(0)
        if any(key < 0 for key in keys):
            raise self._error
        return {key: key * key for key in keys}


async def test_requests_that_come_together_share_a_read_and_each_key_is_read_once() -> None:
    reads = Reads()
    assert await asyncio.gather(*(reads.grouped.of(key) for key in (1, 2, 3, 2))) == [1, 4, 9, 4]
    assert reads.groups == [[1], [2, 3]]
    assert await reads.grouped.of(4) == 16


async def test_a_request_never_gets_what_was_read_before_it_came() -> None:
    reads = Reads()
    first = asyncio.create_task(reads.grouped.of(1))
    await reads.has_begun.wait()
    assert await reads.grouped.of(1) == await first == 1
    assert reads.groups == [[1], [1]]


async def test_a_read_has_no_more_keys_than_may_be() -> None:
    reads = Reads()
    await asyncio.gather(*map(reads.grouped.of, range(AT_ONCE + 2)))
    assert [len(group) for group in reads.groups] == [1, AT_ONCE, 1]


async def test_what_cannot_be_read_takes_no_others_with_it() -> None:
    reads = Reads()
    results = await asyncio.gather(*map(reads.grouped.of, (1, -1, 3)), return_exceptions=True)
    assert [results[0], results[2]] == [1, 9]
    assert isinstance(results[1], StoreError)


async def test_a_store_that_is_away_is_not_asked_for_each_key() -> None:
    reads = Reads(StoreUnavailableError("away"))
    results = await asyncio.gather(*map(reads.grouped.of, (1, -1, 2)), return_exceptions=True)
    assert [type(result) for result in results] == [int, StoreUnavailableError, StoreUnavailableError]
    assert reads.groups == [[1], [-1, 2]]


async def test_a_request_that_is_cancelled_leaves_the_others() -> None:
    reads = Reads()
    first, second = (asyncio.create_task(reads.grouped.of(key)) for key in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 4
    with pytest.raises(asyncio.CancelledError):
        await first
