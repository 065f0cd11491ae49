"""No message changes what a user has while the user is held: each message of a Session actor is sent to one who is.

A message that is new fails here until it has an example, and stands in the right set of `actors.rules.placing.effects`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from actors import Content
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import now_s
from actors.messages.operating.batch import BatchInfo
from actors.messages.operating.schedule import ScheduledTime, SchedulePlan, Timing
from actors.messages.operating.store_seat import StoreSeat
from actors.messages.operating.versions import NO_VERSIONS
from actors.messages.protocol.any_message import decode_message
from actors.messages.session import SessionKey
from actors.rules.placing.effects import BEGINS, GOES_ON, HOLDS, OF_MANY, OF_NO_USER, READS, check_effect
from actors.session import archiving
from actors.session.environment import StorePlace
from runtime.stores.memory import SqlMemoryStore
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled

APP, USER = KEY.app, KEY.user
PAUSED, FAILED, NEW = (SessionKey(APP, USER, name) for name in ("paused", "failed", "new"))
MOVE = p.HoldUser(app=APP, user=USER, moves=True, token="a move")
RELEASE = p.ReleaseUser(app=APP, user=USER, token="a move")
DAILY = SchedulePlan(timing=Timing(every_s=3_600), content=Content.of_text("go"))
GONE = SchedulePlan(timing=Timing(every_s=900), content=Content.of_text("go"), missed="skip")
LONG_AGO_S, SOON_S = 0.0, 2.0**33
"""Before and after all that the user has."""


class Desk:
    """A Session actor of one of two stores, with something of all kinds of a user."""

    def __init__(self, folder: Path) -> None:
        memory = SqlMemoryStore(f"sqlite:///{folder}/memory.db")
        self.is_late = False
        self.session = SessionFixture(folder, place=StorePlace(0, 2), memory=memory, now_s=self._now_s)

    def _now_s(self) -> float:
        return now_s() + 1_000 * self.is_late

    async def fill(self) -> None:
        """Have it."""
        session = self.session
        for number in range(3):
            await session.turn(f"e-{number}", "hello", state={"user:n": number})
        await self.ask(p.RememberSession(key=KEY))
        await session.turn("e-1", "hello", key=OTHER)
        await session.open("e-p", key=PAUSED)
        await session.say(session.event("root", turn="e-p", call="c1"), turn="e-p", key=PAUSED)
        await session.close("e-p", p.Paused(call_ids=("c1",)), key=PAUSED)
        await session.open("e-f", key=FAILED)
        await session.close("e-f", p.Failed(agent="root", error_code="E"), key=FAILED)
        for name, plan in (("daily", DAILY), ("gone", GONE)):
            await session.ref.create_schedule(p.CreateSchedule(key=KEY, name=name, id=name, plan=plan))
        # Due times have passed when anything asks for what is due.
        self.is_late = True

    async def ask(self, message: p.Message) -> p.Message:
        """The reply to a message, also if that is an error."""
        return decode_message(await self.session.actor.receive(encode(message)))

    async def hold(self) -> None:
        """Have the user held by a move."""
        held = await self.ask(MOVE)
        assert isinstance(held, p.UserHeld)
        assert held.is_idle

    async def has(self) -> list[bytes]:
        """All that there is of the user. What was asked before, and waits for nothing but the store, is done."""
        found: list[bytes] = []
        for _ in range(5):
            await settled()
            found, part = [], await self.session.ref.read_user_rows(p.ReadUserRows(app=APP, user=USER))
            while part.next:
                found.append(part.raw)
                part = await self.session.ref.read_user_rows(p.ReadUserRows(app=APP, user=USER, after=part.next))
        return found


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(archiving, "KEPT", 1)
    made = Desk(tmp_path)
    await made.fill()
    return made


def said(text: str) -> Callable[[Desk], bytes]:
    return lambda desk: encode(desk.session.event("user", text, turn="e-new"))


Make = Callable[[Desk], p.Message]

CHANGING: Mapping[type[p.Message], Make] = {
    p.AppendEventRequest: lambda desk: p.AppendEventRequest(key=KEY, event=said("note")(desk)),
    p.ArchiveOldEvents: lambda desk: p.ArchiveOldEvents(app=APP, before_s=SOON_S),
    p.AwaitDue: lambda desk: p.AwaitDue(app=APP, runner="runner"),
    p.CancelTurn: lambda desk: p.CancelTurn(key=PAUSED, invocation_id="e-p"),
    p.ChangeSchedule: lambda desk: p.ChangeSchedule(key=KEY, name="daily", id="daily", change="pause"),
    p.CreateSchedule: lambda desk: p.CreateSchedule(key=KEY, name="other", id="other", plan=DAILY),
    p.CreateSessionRequest: lambda desk: p.CreateSessionRequest(key=NEW),
    p.DeleteSessionRequest: lambda desk: p.DeleteSessionRequest(key=OTHER),
    p.ForgetSession: lambda desk: p.ForgetSession(key=KEY),
    p.ForkSession: lambda desk: p.ForkSession(key=KEY, invocation_id="e-1", fork="fork"),
    p.OpenTurn: lambda desk: p.OpenTurn(
        key=NEW, invocation_id="e-new", event=said("hi")(desk), auto_create=True, runner="runner"
    ),
    p.PassDueTime: lambda desk: p.PassDueTime(
        key=KEY, time=ScheduledTime("daily", "daily", int(SOON_S), int(SOON_S) + 1), error="E"
    ),
    p.PruneSessions: lambda desk: p.PruneSessions(app=APP, before_s=SOON_S),
    p.RememberSession: lambda desk: p.RememberSession(key=OTHER),
    p.RetryTurn: lambda desk: p.RetryTurn(key=FAILED, invocation_id="e-f", runner="runner"),
    p.RewindRequest: lambda desk: p.RewindRequest(key=KEY, invocation_id="e-1"),
}
"""Messages that change what the user has, who has no open turn."""

OF_OPEN_TURNS: Mapping[type[p.Message], Make] = {
    p.AbandonRuns: lambda desk: p.AbandonRuns(turn=desk.session.turn_ref("e-new", key=NEW), lost=(1,)),
    p.BeginAlone: lambda desk: p.BeginAlone(turn=desk.session.turn_ref("e-new", key=NEW), run="root", attempt=1),
    p.Append: lambda desk: p.Append(turn=desk.session.turn_ref("e-new", key=NEW), events=[said("more")(desk)]),
    p.CloseTurn: lambda desk: p.CloseTurn(
        turn=desk.session.turn_ref("e-new", key=NEW), agent="root", outcome=p.Finished(agent="root")
    ),
    p.ResumeTurn: lambda desk: p.ResumeTurn(key=NEW, invocation_id="e-new", runner="runner"),
    p.ReserveSpending: lambda desk: p.ReserveSpending(turn=desk.session.turn_ref("e-new", key=NEW), agent="root", model="m"),
}
"""Messages that change a turn that is open: no user who has one is held by a move."""

OTHERS: Mapping[type[p.Message], Make] = {
    p.AnnounceRunner: lambda desk: p.AnnounceRunner(runner="test/other", number=0),
    p.CountTurns: lambda desk: p.CountTurns(app=APP),
    p.Drain: lambda desk: p.Drain(lease_s=1.0),
    p.Fetch: lambda desk: p.Fetch(key=KEY),
    p.FindOldSessions: lambda desk: p.FindOldSessions(app=APP, before_s=SOON_S, limit=9),
    p.FindTurn: lambda desk: p.FindTurn(key=KEY),
    p.ForgetStates: lambda desk: p.ForgetStates(),
    p.GetDrain: lambda desk: p.GetDrain(),
    p.GetModelCalls: lambda desk: p.GetModelCalls(key=KEY, invocation_id="e-1"),
    p.GetSessionRequest: lambda desk: p.GetSessionRequest(key=KEY),
    p.GetStateBefore: lambda desk: p.GetStateBefore(key=KEY, seq=2),
    p.GetStatistics: lambda desk: p.GetStatistics(),
    p.GetStoreSeat: lambda desk: p.GetStoreSeat(app=APP),
    p.GetTopology: lambda desk: p.GetTopology(),
    p.GetTurn: lambda desk: p.GetTurn(key=KEY, invocation_id="e-1"),
    p.GetTurnBudgets: lambda desk: p.GetTurnBudgets(key=KEY, invocation_id="e-1"),
    p.GetUsage: lambda desk: p.GetUsage(app=APP, user=USER),
    p.GetVersions: lambda desk: p.GetVersions(app=APP),
    p.ListBatchItems: lambda desk: p.ListBatchItems(app=APP, batch="b", limit=9),
    p.ListBatches: lambda desk: p.ListBatches(app=APP, limit=9),
    p.ListOpenTurns: lambda desk: p.ListOpenTurns(app=APP, runner="runner"),
    p.ListPending: lambda desk: p.ListPending(app=APP, user=USER),
    p.ListSchedules: lambda desk: p.ListSchedules(app=APP, user=USER, limit=9),
    p.ListSessionsRequest: lambda desk: p.ListSessionsRequest(app=APP, user=USER),
    p.ListStoreUsers: lambda desk: p.ListStoreUsers(app=APP),
    p.ListTurns: lambda desk: p.ListTurns(app=APP, user=USER),
    p.OpenStore: lambda desk: p.OpenStore(),
    p.PlaceUsers: lambda desk: p.PlaceUsers(app=APP, digests=[b"another user"], store=1),
    p.ReadLog: lambda desk: p.ReadLog(key=KEY),
    p.ReadTurn: lambda desk: p.ReadTurn(key=KEY, invocation_id="e-1"),
    p.SaveBatch: lambda desk: p.SaveBatch(app=APP, batch=BatchInfo(id="b", name="b", kind="map", begun_s=1.0, updated_s=1.0)),
    p.SearchMemory: lambda desk: p.SearchMemory(app=APP, user=USER, query="hello"),
    p.Stop: lambda desk: p.Stop(),
    p.Subscribe: lambda desk: p.Subscribe(subscriber="driver", key=KEY, invocation_id="e-1"),
    p.TakeStoreSeat: lambda desk: p.TakeStoreSeat(app=APP, seat=StoreSeat("family", 0, 2)),
    p.TellPartial: lambda desk: p.TellPartial(turn=desk.session.turn_ref("e-p", key=PAUSED), events=[]),
    p.Unsubscribe: lambda desk: p.Unsubscribe(subscriber="unknown"),
    p.UseVersions: lambda desk: p.UseVersions(record=NO_VERSIONS),
    p.WatchStates: lambda desk: p.WatchStates(shard=0),
}
"""Messages that change nothing of what the user has."""

EXAMPLES: Mapping[type[p.Message], Make] = {**CHANGING, **OF_OPEN_TURNS, **OTHERS}


def of(kinds: Mapping[type[p.Message], Make]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.__name__) for kind in kinds])


def test_each_message_of_a_session_actor_has_an_example(tmp_path: Path) -> None:
    kinds = set(SessionFixture(tmp_path).actor.handlers())
    assert kinds - HOLDS == EXAMPLES.keys()
    assert CHANGING.keys() | OF_OPEN_TURNS.keys() == (BEGINS - {p.FindTurn}) | GOES_ON | (OF_MANY - {p.SaveBatch})
    assert OTHERS.keys() == READS | OF_NO_USER | {p.FindTurn, p.SaveBatch}


def test_a_message_that_stands_in_no_set_is_refused_when_the_actor_starts() -> None:
    with pytest.raises(TypeError, match="Invoke stands in 0 sets"):
        check_effect(p.Invoke)


@of(CHANGING)
async def test_a_message_that_changes_something_waits_until_the_user_is_free(desk: Desk, kind: type[p.Message]) -> None:
    await desk.hold()
    before = await desk.has()
    asked = asyncio.create_task(desk.ask(CHANGING[kind](desk)))
    assert await desk.has() == before
    assert not asked.done()
    await desk.ask(RELEASE)
    if kind is p.AwaitDue:
        # It waits for more, and looks again after a while. So does the next one, which looks at once.
        again = asyncio.create_task(desk.ask(CHANGING[kind](desk)))
    else:
        assert not isinstance(await asked, p.ErrorReply)
    # So it is an example of what it has to be one of.
    assert await desk.has() != before
    if kind is p.AwaitDue:
        await desk.ask(p.Stop())
        await asyncio.gather(asked, again)


@of(OF_OPEN_TURNS)
async def test_a_user_with_an_open_turn_is_not_held_by_a_move_and_its_messages_wait_where_there_is_none(
    desk: Desk, kind: type[p.Message]
) -> None:
    await desk.session.open("e-new", key=NEW)
    held = await desk.ask(MOVE)
    assert isinstance(held, p.UserHeld)
    assert [tuple(turn) for turn in held.turns] == [(NEW, "e-new")]
    assert not held.is_idle
    before = await desk.has()
    assert not isinstance(await desk.ask(OF_OPEN_TURNS[kind](desk)), p.ErrorReply)
    # The first two are noted with what comes next.
    assert (await desk.has() != before) == (kind not in (p.AbandonRuns, p.ReserveSpending))
    if kind is not p.CloseTurn:
        await desk.session.close("e-new", key=NEW, epoch=2 if kind is p.ResumeTurn else 1)
    await desk.hold()
    asked = asyncio.create_task(desk.ask(OF_OPEN_TURNS[kind](desk)))
    await desk.has()
    assert not asked.done()
    await desk.ask(RELEASE)
    await asked


@of(OTHERS)
async def test_a_message_that_changes_nothing_does_not(desk: Desk, kind: type[p.Message]) -> None:
    before = await desk.has()
    await desk.ask(OTHERS[kind](desk))
    assert await desk.has() == before
