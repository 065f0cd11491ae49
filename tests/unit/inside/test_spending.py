"""The sums of a day: each turn counts once, whatever it does while the store is read; and which agents a budget bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import RunConfig
from actors.interfaces.stores import TurnRow
from actors.layers.spending.accounts import agents_below
from actors.layers.spending.rules.report import DAY_S
from actors.layers.spending.stored_usage import DaySums, StoredTurns, StoredUsage, SumsOfToday
from actors.layers.spending.turn_spending import Spending
from actors.layers.stores.records import TurnId, TurnName, UsageFilter
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.messages.topology import AgentNode, Topology
from actors.rules.accounting import Amounts, packed
from actors.session.log.event_scan import EventScan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn

CALL = Amounts(llm_calls=1)
RESPONSE = EventScan(author="root", model_version="m")
TODAY_S = now_s() // DAY_S * DAY_S


@pytest.fixture(scope="module", autouse=True)
def one_day() -> Iterator[None]:
    """Midnight does not pass meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.layers.spending.stored_usage.now_s", lambda: TODAY_S)
        yield


class Log:
    """A session with one turn after the other."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.turn: SessionTurn | None = None


class World:
    """Sessions, what of them is on disk, and the sums under test. What each turn really used is known."""

    def __init__(self) -> None:
        self.logs: dict[SessionKey, Log] = {}
        self.disk: dict[tuple[SessionKey, str], tuple[int, bool]] = {}
        self.used: dict[tuple[SessionKey, str], int] = {}
        self.gate = asyncio.Event()
        self.page = asyncio.Event()
        self.late: list[tuple[str, int]] = []
        self.day = DaySums(cast(StoredUsage, self), cast(SessionLogs, self), has_others=True)

    # The part of SessionLogs and of StoredUsage that the sums need.

    def all_in_memory(self, *, in_use: bool) -> Iterator[Log]:
        assert in_use
        yield from self.logs.values()

    def in_memory(self, key: SessionKey) -> Log | None:
        return self.logs.get(key)

    async def by_turn(self, _: UsageFilter) -> StoredTurns:
        await self.page.wait()
        found = StoredTurns(self.names, self.read)
        for number, ((key, invocation_id), (calls, is_summed)) in enumerate(self.disk.items()):
            name: TurnId | TurnName = (number, invocation_id)
            if not is_summed:
                name = TurnName(key.user, key.session, invocation_id, TODAY_S)
            found.add([packed({("root", "m"): Amounts(llm_calls=calls)})], [name])
        self.order = list(self.disk)
        await self.gate.wait()
        return found

    def names(self, ids: Sequence[TurnId]) -> Mapping[TurnId, TurnName]:
        places = {(number, name): self.order[number][0] for number, name in ids}
        return {at: TurnName(key.user, key.session, at[1], TODAY_S) for at, key in places.items()}

    async def read(self, call: Any, *arguments: Any) -> Any:
        late, self.late = self.late, []
        self.do(late)
        return call(*arguments)

    # What turns do.

    def begin(self, session: int) -> None:
        key = SessionKey("app", "ada", f"s{session}")
        log = self.logs.setdefault(key, Log(key))
        if log.turn is None:
            # The same id as a turn of another session has.
            row = TurnRow(invocation_id=f"e-{session % 2}", status="running", epoch=1, first_seq=1, opened_seq=1, begun_s=TODAY_S)
            log.turn = SessionTurn.new(row, RunConfig(), [Spending])
            log.turn.ledger.spent.update(self._stored_of(key, log.turn))

    def _stored_of(self, key: SessionKey, turn: SessionTurn) -> dict[tuple[str, str], Amounts]:
        calls = self.used.get((key, turn.row.invocation_id), 0)
        return {("root", "m"): Amounts(llm_calls=calls)} if calls else {}

    def use(self, session: int, *, is_on_disk: bool) -> None:
        self.begin(session)
        key = SessionKey("app", "ada", f"s{session}")
        turn = self.logs[key].turn
        assert turn is not None
        name = (key, turn.row.invocation_id)
        self.day.track(key, turn)
        turn.ledger.fold(RESPONSE)
        self.used[name] = self.used.get(name, 0) + 1
        self.day.note(key, turn)
        if is_on_disk:
            self.disk[name] = (self.used[name], False)

    def end(self, session: int) -> None:
        log = self.logs.get(SessionKey("app", "ada", f"s{session}"))
        if log is not None and log.turn is not None:
            name = (log.key, log.turn.row.invocation_id)
            self.disk[name] = (self.used.get(name, 0), True)
            log.turn = None

    def do(self, actions: Sequence[tuple[str, int]]) -> None:
        for action, session in actions:
            match action:
                case "use":
                    self.use(session, is_on_disk=True)
                case "use, and be on the way to the disk":
                    self.use(session, is_on_disk=False)
                case _:
                    self.end(session)

    def check(self) -> None:
        total = sum(amounts.llm_calls for amounts in self.day.spent().values())
        assert total == sum(self.used.values())


KEY = SessionKey("app", "ada", "s0")
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["use", "use, and be on the way to the disk", "end"]), st.integers(0, 2)), max_size=6
)


@given(st.lists(ACTIONS, min_size=7, max_size=7))
def test_each_call_counts_once_whatever_turns_do_before_during_and_after_a_read(parts: list[list[tuple[str, int]]]) -> None:
    asyncio.run(_read_twice(*parts))


async def _read_twice(before: list[tuple[str, int]], *rest: list[tuple[str, int]]) -> None:
    world = World()
    world.do(before)
    for first, second, world.late in (rest[:3], rest[3:]):
        world.day._read_s = -100.0
        reading = asyncio.create_task(world.day.refresh(KEY))
        await asyncio.sleep(0)
        world.do(first)
        world.page.set()
        await asyncio.sleep(0)
        world.do(second)
        world.gate.set()
        await reading
        world.page.clear()
        world.gate.clear()
        world.check()
    world.do([*before, ("use", 1), ("end", 1), ("use", 1)])
    list(world.day.under_way(0.0))
    world.check()


async def test_turns_that_have_ended_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr("actors.layers.spending.stored_usage.TRACKED", 4)
    world = World()
    world.page.set()
    world.gate.set()
    await world.day.refresh(KEY)
    for session in range(1_000):
        world.do([("use", session), ("end", session)])
    assert len(world.day._tracked) <= 256
    world.check()


async def test_sums_of_a_user_are_without_those_of_others_and_idle_ones_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr("actors.layers.spending.stored_usage.MAX_USERS", 3)
    world = World()
    world.page.set()
    world.gate.set()
    made: list[str | None] = []

    def sums_of(user: str | None) -> DaySums:
        made.append(user)
        return DaySums(cast(StoredUsage, world), cast(SessionLogs, world), has_others=False, user=user)

    today = SumsOfToday(sums_of)
    today._most = 3
    await today.app.refresh(KEY)
    turns = {}
    for user in ("ada", "bob", "eve"):
        key = SessionKey("app", user, "s")
        log = world.logs[key] = Log(key)
        row = TurnRow(invocation_id="e", status="running", epoch=1, first_seq=1, opened_seq=1, begun_s=TODAY_S)
        log.turn = turns[key] = SessionTurn.new(row, RunConfig(), [Spending])
        sums = await today.of_user(key, log.turn)
        today.track(key, log.turn)
        log.turn.ledger.fold(RESPONSE)
        today.note(key, log.turn)
        assert sums.spent() == {("root", "m"): CALL}
    assert today.app.spent() == {("root", "m"): Amounts(llm_calls=3)}
    # Bob's turn has ended, and the others are open.
    world.logs[SessionKey("app", "bob", "s")].turn = None
    for key in turns:
        if key.user != "bob":
            await today.of_user(key, turns[key])
    other = SessionKey("app", "ida", "s")
    await today.of_user(other, SessionTurn.new(turns[SessionKey("app", "ada", "s")].row, RunConfig(), [Spending]))
    assert [user for _, user in today._users] == ["ada", "eve", "ida"]
    assert made == [None, "ada", "bob", "eve", "ida"]


TREE = Topology.of(
    [
        AgentNode(name="root", children=("team", "flow")),
        AgentNode(name="team", parent="root", children=("a",), tool_agents=("expert",)),
        AgentNode(name="a", parent="team", tool_agents=("expert",)),
        AgentNode(name="flow", kind="flow", parent="root", workers=("a",)),
        AgentNode(name="expert", tool_agents=("expert",), children=("helper",)),
        AgentNode(name="helper", parent="expert"),
    ]
)


def test_children_tools_and_workers_are_below_and_what_is_below_those() -> None:
    assert agents_below(TREE, "team") == {"team", "a", "expert", "helper"}
    assert agents_below(TREE, "flow") == {"flow", "a", "expert", "helper"}
    assert agents_below(TREE, "helper") == {"helper"}
    assert agents_below(TREE, "root") == {"root", "team", "flow", "a", "expert", "helper"}


def test_an_agent_that_is_not_in_the_tree_is_alone() -> None:
    assert agents_below(TREE, "stranger") == {"stranger"}
