"""Two processes of an actor find out which of them leads, and programs reach that one: without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError, ActorUnavailableError

from runtime.cluster.core import standby
from runtime.cluster.core.standby import Standby, StandbyPlan
from runtime.cluster.rules.standby import Other, StandbyStep, next_step, next_term
from runtime.cluster.transport import pair
from runtime.cluster.transport.link import StandsByError
from runtime.cluster.transport.pair import Pair, PairPeer, Standing
from runtime.cluster.transport.wires import Wires
from runtime.transport.endpoint import Endpoint

HERE = Endpoint("node", "/tmp/socket", "127.0.0.1", 1, b"boot")

Answer = Callable[[], Awaitable[Standing]]


class Process:
    """Stands in for the handle of one of the two processes. `standing` is what it says, or an error, or None: it is silent."""

    def __init__(self, standing: Standing | Exception | None) -> None:
        self.says = standing
        self.asked = 0
        self.was_asked = asyncio.Condition()
        self.noted: asyncio.Queue[Sequence[int]] = asyncio.Queue()
        self.got: list[bytes] = []
        self.refuses = False
        self.standing = SimpleNamespace(remote=lambda *_: self._standing())
        self.note_standby = SimpleNamespace(remote=self._note)
        self.receive = SimpleNamespace(remote=self._receive)

    async def _standing(self) -> Standing:
        self.asked += 1
        async with self.was_asked:
            self.was_asked.notify_all()
        if self.says is None:
            await asyncio.Event().wait()
        if isinstance(self.says, Exception):
            raise self.says
        assert self.says is not None
        return self.says

    async def _note(self, pids: Sequence[int]) -> None:
        self.noted.put_nowait(pids)

    async def _receive(self, raw: bytes) -> bytes:
        if isinstance(self.says, Exception):
            raise self.says
        if self.refuses:
            raise StandsByError("it stands by")
        self.got.append(raw)
        return b"reply"


class Watching:
    """Stands in for the connections of a process: the test says when the other one is lost."""

    standby: Standby

    def __init__(self) -> None:
        self.lost: asyncio.Queue[bool] = asyncio.Queue()

    async def watch(self, _: Endpoint) -> bool:
        return await self.lost.get()


def leading(term: int = 5, endpoint: Endpoint | None = HERE) -> Standing:
    return Standing(True, term, endpoint)


STANDS_BY = Standing(False, 0, HERE)


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "SILENT_S", 0.2)


def standing_by(
    monkeypatch: pytest.MonkeyPatch, other: Process | None, watching: Watching, *, is_first: bool = False
) -> asyncio.Task[int]:
    def find(name: str, _: str) -> Any:
        if other is None:
            raise ValueError(name)
        return other

    async def prepare() -> list[int]:
        return [1, 2]

    monkeypatch.setattr(standby, "get_actor", find)
    watching.standby = Standby(StandbyPlan("app/other", "space", is_first), cast(Wires, watching), prepare)
    return asyncio.create_task(watching.standby.until_it_leads())


async def test_it_is_prepared_waits_while_the_other_lives_and_leads_in_a_later_term(
    monkeypatch: pytest.MonkeyPatch, watching: Watching
) -> None:
    other = Process(leading(10**15))
    task = standing_by(monkeypatch, other, watching)
    await watching_began(other)
    assert not task.done()
    watching.lost.put_nowait(True)
    assert await asyncio.wait_for(task, 5) == 10**15 + 1


async def watching_began(other: Process) -> None:
    assert await asyncio.wait_for(other.noted.get(), 5) == [1, 2]


async def test_a_connection_that_broke_while_the_other_lives_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, watching: Watching
) -> None:
    other = Process(leading())
    task = standing_by(monkeypatch, other, watching)
    await watching_began(other)
    asked = other.asked
    watching.lost.put_nowait(False)
    await watching_began(other)
    assert other.asked > asked
    assert not task.done()
    other.says = ActorDiedError()
    watching.lost.put_nowait(False)
    assert await asyncio.wait_for(task, 5) > 5


async def test_one_that_is_stopped_is_no_lost_one(monkeypatch: pytest.MonkeyPatch, watching: Watching) -> None:
    other = Process(leading())
    task = standing_by(monkeypatch, other, watching)
    await watching_began(other)
    other.says = None
    watching.lost.put_nowait(False)
    await asyncio.wait((task,), timeout=0.5)
    assert not task.done()
    other.says = leading()
    await watching_began(other)
    task.cancel()


async def test_one_that_learns_of_a_loss_late_leaves_the_place_to_the_first_which_it_has_told_that_it_stands_by(
    monkeypatch: pytest.MonkeyPatch, watching: Watching
) -> None:
    first = Process(leading(4))
    task = standing_by(monkeypatch, first, watching)
    await watching_began(first)
    # The first was lost, was started again, has asked and leads; only now its loss is noticed.
    watching.standby.give_way()
    first.says = leading(6)
    watching.lost.put_nowait(True)
    await watching_began(first)
    assert not task.done()
    watching.lost.put_nowait(True)
    assert await asyncio.wait_for(task, 5) > 6


async def test_where_both_were_lost_the_first_leads_and_the_second_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, watching: Watching
) -> None:
    assert await asyncio.wait_for(standing_by(monkeypatch, Process(STANDS_BY), watching, is_first=True), 5) > 0
    first = Process(STANDS_BY)
    task = standing_by(monkeypatch, first, watching)
    await asyncio.wait((task,), timeout=0.1)
    assert not task.done()
    first.says = leading()
    await watching_began(first)
    task.cancel()


@pytest.mark.parametrize("other", [None, Process(ActorUnavailableError("", None)), Process(None)], ids=["none", "lost", "silent"])
async def test_a_restarted_first_one_leads_without_a_second(
    monkeypatch: pytest.MonkeyPatch, watching: Watching, other: Process | None
) -> None:
    assert await asyncio.wait_for(standing_by(monkeypatch, other, watching, is_first=True), 5) > 0


def two(monkeypatch: pytest.MonkeyPatch, first: Process, second: Process | None) -> Pair:
    def find(name: str, _: str) -> Any:
        if second is None:
            raise ValueError(name)
        return second

    monkeypatch.setattr(pair, "get_actor", find)
    return Pair(cast(Any, first), "app/other", "space")


async def test_a_program_finds_the_one_that_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Process(STANDS_BY), Process(leading())
    handle, endpoint = await asyncio.wait_for(two(monkeypatch, first, second).leader(), 5)
    assert (handle, endpoint) == (second, HERE)
    handle, _ = await asyncio.wait_for(two(monkeypatch, Process(leading()), None).leader(), 5)
    assert handle is not second


async def test_a_program_waits_while_neither_leads_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray has not learnt yet that the first one is lost: it says nothing.
    first, second = Process(None), Process(STANDS_BY)
    task = asyncio.create_task(two(monkeypatch, first, second).leader())
    async with asyncio.timeout(5), second.was_asked:
        await second.was_asked.wait_for(lambda: second.asked == 3)
    second.says = leading()
    assert (await asyncio.wait_for(task, 5))[0] is second


async def test_a_process_that_could_not_be_asked_once_is_found_when_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    # It is lost, and started again before the other one has learnt that.
    first, second = Process(ActorUnavailableError("", None)), Process(STANDS_BY)
    task = asyncio.create_task(two(monkeypatch, first, second).leader())
    async with asyncio.timeout(5), second.was_asked:
        await second.was_asked.wait_for(lambda: second.asked == 3)
    first.says = leading()
    assert (await asyncio.wait_for(task, 5))[0] is first


async def test_a_program_learns_what_ray_says_of_the_first_when_both_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ActorUnavailableError):
        await asyncio.wait_for(two(monkeypatch, Process(ActorUnavailableError("", None)), Process(ActorDiedError())).leader(), 5)
    with pytest.raises(ActorDiedError):
        await asyncio.wait_for(two(monkeypatch, Process(ActorDiedError()), None).leader(), 5)


async def test_messages_over_ray_go_to_the_one_that_leads_now(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Process(leading()), Process(STANDS_BY)
    link = PairPeer(two(monkeypatch, first, second), "the Runner", None).link("the Runner", 5.0)
    assert await link.send(b"one") == b"reply"
    first.says, second.says = ActorUnavailableError("", None), leading()
    assert await asyncio.wait_for(link.send(b"two"), 5) == b"reply"
    assert (first.got, second.got) == ([b"one"], [b"two"])


async def test_a_message_that_ray_brings_to_a_process_which_stands_by_goes_to_the_one_that_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Process(leading()), Process(STANDS_BY)
    link = PairPeer(two(monkeypatch, first, second), "the Runner", None).link("the Runner", 5.0)
    assert await link.send(b"one") == b"reply"
    # It was lost and started again, before it could be asked, and stands by.
    first.says, second.says, first.refuses = STANDS_BY, leading(), True
    assert await asyncio.wait_for(link.send(b"two"), 5) == b"reply"
    assert (first.got, second.got) == ([b"one"], [b"two"])


LEAD, WATCH, ASK = StandbyStep.LEAD, StandbyStep.WATCH, StandbyStep.ASK_AGAIN


@pytest.mark.parametrize(
    ("other", "has_seen_leader", "first", "second"),
    [
        pytest.param(Other.LEADS, False, WATCH, WATCH, id="no one leads beside one that leads"),
        pytest.param(Other.LEADS, True, WATCH, WATCH, id="no one leads beside one that leads on"),
        pytest.param(Other.LOST, True, LEAD, LEAD, id="the place of a lost leader is taken"),
        pytest.param(Other.STANDS_BY, True, LEAD, ASK, id="of two that were started again the first leads"),
        pytest.param(Other.STANDS_BY, False, LEAD, ASK, id="of two that begin the first leads"),
        pytest.param(Other.SILENT, True, ASK, ASK, id="a leader that is silent leads on"),
        pytest.param(Other.SILENT, False, LEAD, LEAD, id="one that was never seen leading is not waited for"),
        pytest.param(Other.ABSENT, False, LEAD, ASK, id="a second does not lead where there was never a first"),
    ],
)
def test_what_a_process_does_that_stands_by(other: Other, has_seen_leader: bool, first: StandbyStep, second: StandbyStep) -> None:
    steps = [next_step(other, is_first=is_first, has_seen_leader=has_seen_leader) for is_first in (True, False)]
    assert steps == [first, second]


def test_a_term_is_later_than_the_one_before_whatever_the_clock_says() -> None:
    assert next_term(0, 5_000, is_first=True) == 5_000
    assert next_term(5_000, 7_000, is_first=False) == 7_001
    assert next_term(5_000, 4_000, is_first=False) == 5_001
    assert next_term(5_001, 4_000, is_first=True) == 5_002


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**15))
def test_two_processes_never_have_the_same_term(seen: int, first_ms: int, second_ms: int) -> None:
    assert next_term(seen, first_ms, is_first=True) != next_term(seen, second_ms, is_first=False)


def test_the_second_does_not_lead_beside_a_first_that_was_told_to_and_the_first_does() -> None:
    lost = [next_step(Other.LOST, is_first=first, has_seen_leader=True, has_given_way=True) for first in (True, False)]
    assert lost == [StandbyStep.LEAD, StandbyStep.ASK_AGAIN]
