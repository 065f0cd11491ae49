"""Examples of each message to a Session actor, and a Session actor that has all that they need."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

import msgspec

from actors import Budget, Content, FunctionResponse, Part, RunConfig
from actors.errors import StoreError, StoreUnavailableError
from actors.layers.background.messages import AskParent, CancelRun, FindRuns, StartRun, SteerRun
from actors.layers.batches import ListBatches, ListBatchItems, SaveBatch
from actors.layers.draining import Drain, GetDrain
from actors.layers.forks import ForkSession
from actors.layers.listing.messages import CountTurns, GetTurn, ListPending, ListTurns
from actors.layers.memory import ForgetSession, RememberSession, SearchMemory
from actors.layers.placing.messages import (
    AdmitUser,
    BeginArrival,
    DropArrival,
    GetStoreSeat,
    LeaveStore,
    ListStoreUsers,
    PlaceUsers,
    ReadUserRows,
    StageUserRows,
    TakeStoreSeat,
)
from actors.layers.placing.rules import digest_with
from actors.layers.recording.messages import GetModelCalls
from actors.layers.retention.messages import ArchiveOldEvents, FindOldSessions, OldEventsArchived, PruneSessions, SessionsPruned
from actors.layers.retries import RetryTurn
from actors.layers.rewinds import RewindRequest
from actors.layers.schedules.messages import AwaitDue, ChangeSchedule, CreateSchedule, DueReply, ListSchedules, PassDueTime
from actors.layers.sharing import ForgetStates, WatchStates
from actors.layers.spending.messages import GetTurnBudgets, GetUsage, MaySpend, ReserveSpending
from actors.layers.steering.messages import FindMessage, FindReader
from actors.layers.stores.batch import BatchInfo
from actors.layers.stores.records import StoreSeat
from actors.layers.stores.schedule import SchedulePlan, Timing
from actors.layers.updates.messages import GetVersions, UseVersions
from actors.layers.updates.versions import NO_VERSIONS
from actors.layers.users import HoldUser, ReleaseUser, RemoveUser, UserHeld, UserRemoved
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event, now_s
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey
from actors.session.environment import ONLY_STORE, StorePlace
from runtime.stores.memory import SqlMemoryStore, url_beside
from runtime.stores.transfer.tables import WholeStore
from tests.support.any_message import decode_message
from tests.support.fixtures.session_fixture import KEY, OTHER, FailingStore, SessionFixture, settled

APP, USER = KEY.app, KEY.user
PAUSED, FAILED, NEW, LONG = (SessionKey(APP, USER, name) for name in ("paused", "failed", "new", "long"))
MOVE = HoldUser(app=APP, user=USER, moves=True, token="a move")
DELETION = HoldUser(app=APP, user=USER, token="a deletion")
RELEASE = ReleaseUser(app=APP, user=USER, token="a move")
HOURLY = SchedulePlan(timing=Timing(every_s=3_600), content=Content.of_text("go"))
GONE = SchedulePlan(timing=Timing(every_s=900), content=Content.of_text("go"), missed="skip")
DUE = SchedulePlan(timing=Timing(every_s=900), content=Content.of_text("go"))
SOON_S = 2.0**33
"""After all that the user has."""

WRITING = (
    *("commit", "take_seat", "place_users", "begin_arrival", "stage", "leave", "admit", "drop_arrival"),
    *("add_session", "delete_session", "delete_user"),
)
"""The methods of stores that write."""


class Gate:
    """Stands before what stores write: it holds writes up while it is shut, and refuses those that come while `refuses`.

    The connection breaks behind the next write while `breaks`.
    """

    def __init__(self, *stores: object) -> None:
        self.refuses = self.breaks = False
        self.is_reached = threading.Event()
        self._is_open = threading.Event()
        self.open()
        for store in stores:
            for name in WRITING:
                if (write := getattr(store, name, None)) is not None:
                    setattr(store, name, self._guarded(write))

    def open(self) -> None:
        """Let writes through, also those that wait."""
        self._is_open.set()

    def shut(self) -> None:
        """Hold writes up from now on."""
        self._is_open.clear()
        self.is_reached.clear()

    def _guarded(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any) -> Any:
            self.is_reached.set()
            self._is_open.wait(20)
            if self.refuses:
                raise StoreError("the disk is full")
            written = write(*args)
            if self.breaks:
                self.breaks = False
                raise StoreUnavailableError("the store", "the connection broke")
            return written

        return guarded


class GuardedStore(FailingStore):
    """A store that is written to in its thread only, so that a write can be held up."""

    is_held = True


class Desk:
    """A Session actor with a memory, whose stores have a gate.

    Attributes:
        session: the actor.
        gate: before what both stores write.
        runner: the Runner that lives.
        is_late: a quarter of an hour has passed.
        copied: the digest of all that the user has.
    """

    runner = "runner"
    is_late = False
    copied = b""

    def __init__(self, folder: Path, place: StorePlace = ONLY_STORE) -> None:
        self.url = f"sqlite:///{folder}/sessions.db"
        memory = SqlMemoryStore(url_beside(self.url))
        self.session = SessionFixture(folder, store=GuardedStore, place=place, memory=memory, now_s=self._now_s)
        self.gate = Gate(self.session.store, memory)

    def _now_s(self) -> float:
        return now_s() + 1_000 * self.is_late

    def heir(self) -> Desk:
        """Another Session actor over the same stores: this one was lost."""
        heir = Desk(self.session.folder)
        heir.is_late, heir.runner = self.is_late, self.runner
        return heir

    async def ask(self, message: p.Message) -> p.Message:
        """The reply to a message, also if that is an error."""
        return decode_message(await self.session.actor.receive(encode(message)))

    async def done(self, message: p.Message) -> p.Message:
        """The reply to a message, which is no error."""
        reply = await self.ask(message)
        assert not isinstance(reply, p.ErrorReply), reply
        return reply

    def of_turn(self, run: int = 0) -> p.TurnRef:
        """The fencing token of the open turn of NEW."""
        return self.session.turn_ref("e-new", key=NEW, run=run)

    def stored(self) -> list[tuple[str, dict[str, Any]]]:
        """All rows of both stores."""
        with WholeStore(self.url).read() as rows:
            return list(rows)

    async def parts(self) -> list[bytes]:
        """All that there is of the user, as a move reads it."""
        found, part = [], await self.session.ref.ask(ReadUserRows(app=APP, user=USER))
        while part.next:
            found.append(part.raw)
            part = await self.session.ref.ask(ReadUserRows(app=APP, user=USER, after=part.next))
        return found

    async def has(self) -> list[bytes]:
        """The same, once all is done that was asked before, and waits for nothing but the store."""
        for _ in range(4):
            await settled()
            await self.parts()
        await settled()
        return await self.parts()


Need = Callable[[Desk], Awaitable[object]]
"""Has the user have something."""


async def talk(desk: Desk) -> None:
    """Three turns."""
    for number in range(3):
        await desk.session.turn(f"e-{number}", "hello", state={"user:n": number})


async def talk_elsewhere(desk: Desk) -> None:
    """A turn in another session."""
    await desk.session.turn("e-1", "hello", key=OTHER)


async def talk_long(desk: Desk) -> None:
    """So many events that older ones may be archived."""
    session = desk.session
    await session.open("e-long", key=LONG)
    await session.say(*(session.event("root", "more", turn="e-long") for _ in range(140)), turn="e-long", key=LONG)
    await session.close("e-long", key=LONG)


async def remember(desk: Desk) -> None:
    """A session in memory."""
    await desk.done(RememberSession(key=KEY))


async def pause(desk: Desk) -> None:
    """A turn that waits for an answer."""
    session = desk.session
    await session.open("e-p", key=PAUSED)
    call = msgspec.structs.replace(session.event("root", turn="e-p", call="c1"), long_running_tool_ids=("c1",))
    await session.say(call, turn="e-p", key=PAUSED)
    await session.close("e-p", p.Paused(agent="root", call_ids=("c1",)), key=PAUSED)


async def fail(desk: Desk) -> None:
    """A turn that has failed."""
    await desk.session.open("e-f", key=FAILED)
    await desk.session.close("e-f", p.Failed(agent="root", error_code="E"), key=FAILED)


async def plan(desk: Desk) -> None:
    """Two schedules. A due time of one has passed when anything asks for what is due."""
    for name, each in (("hourly", HOURLY), ("gone", GONE)):
        await desk.done(CreateSchedule(key=KEY, name=name, id=name, plan=each))
    desk.is_late = True


async def plan_soon(desk: Desk) -> None:
    """A schedule that will be due."""
    await desk.done(CreateSchedule(key=KEY, name="due", id="due", plan=DUE))


async def begin(desk: Desk, config: RunConfig | None = None) -> None:
    """A turn that runs."""
    await desk.session.open("e-new", key=NEW, config=config or RunConfig())


async def call_tool(desk: Desk) -> None:
    """A call in it that has no answer."""
    await desk.session.say(desk.session.event("root", turn="e-new", call="c1"), turn="e-new", key=NEW)


async def begin_on_budget(desk: Desk) -> None:
    """A turn that runs, and has used its budget."""
    await begin(desk, RunConfig(budget=Budget(llm_calls=1, at_limit="wrap_up")))
    said = msgspec.structs.replace(desk.session.event("root", "one", turn="e-new"), model_version="m")
    await desk.session.say(said, turn="e-new", key=NEW)


async def lose_runner(desk: Desk) -> None:
    """Another Runner in the place of the first."""
    desk.runner = "runner/2"
    await desk.done(p.AnnounceRunner(runner=desk.runner, number=0))


async def pause_schedule(desk: Desk) -> None:
    """A paused schedule."""
    await desk.done(ChangeSchedule(key=KEY, name="hourly", id="hourly", change="pause"))


async def hold_for_move(desk: Desk) -> None:
    """A move that has the user held, and has read all."""
    held = await desk.ask(MOVE)
    assert isinstance(held, UserHeld)
    assert held.is_idle
    desk.copied = reduce(digest_with, await desk.parts(), b"")


async def hold_for_deletion(desk: Desk) -> None:
    """A deletion that has the user held."""
    held = await desk.ask(DELETION)
    assert isinstance(held, UserHeld)
    assert held.is_idle


async def arrive(desk: Desk) -> None:
    """A user on the way from another store."""
    await desk.done(BeginArrival(app=APP, user="bob", token="a move", source=1))
    await desk.done(StageUserRows(app=APP, user="bob", token="a move", number=1, raw=encode([])))


FILL: Sequence[Need] = (talk, remember, talk_elsewhere, talk_long, pause, fail, plan)
"""Something of all kinds, in sessions without an open turn."""

Make = Callable[[Desk], p.Message]


class Example(NamedTuple):
    """A message, and what it needs.

    Attributes:
        again: what the reply is when the same message comes again, since the first reply was lost: a class of replies, or the
            name of an error; None: the same reply.
    """

    make: Make
    needs: Sequence[Need] = ()
    again: type[p.Message] | UnionType | str | None = None


def said(text: str, **more: Any) -> Callable[[Desk], bytes]:
    return lambda desk: encode(desk.session.event("user", text, turn="e-new", **more))


FOLLOWED = p.TurnResumed | p.TurnJoined
"""The Runner that asks is told to run the turn, or to see whether it does."""


def opening(key: SessionKey, turn: str = "e-new", **more: Any) -> Make:
    """A message that asks for a new turn."""

    def made(desk: Desk) -> p.OpenTurn:
        event = desk.session.event("user", "hi", turn=turn, state_delta=more.get("state_delta", {}))
        return p.OpenTurn(key=key, invocation_id=turn, event=encode(event), auto_create=True, runner=desk.runner, **more)

    return made


def answering(**more: Any) -> Make:
    """A message that answers the call of the paused turn."""

    def made(desk: Desk) -> p.OpenTurn:
        parts = [Part(function_response=FunctionResponse(id="c1", name="f", response={"yes": True}))]
        event = msgspec.structs.replace(desk.session.event("user", turn="e-p"), content=Content(role="user", parts=parts))
        return p.OpenTurn(
            key=PAUSED, invocation_id="e-p", event=encode(event), answers=("c1",), runner=desk.runner, subscriber="d", **more
        )

    return made


leaving = opening(NEW, "e-more", config=RunConfig(on_concurrent_turn="steer"))
"""A message to the turn that runs."""


async def leave(desk: Desk) -> None:
    await desk.ask(leaving(desk))


RUN = "0123456789abcdef"
OF_RUN = SessionKey(NEW.app, NEW.user, f"{NEW.session}~{RUN}")

START_RUN = StartRun(
    key=NEW, invocation_id="e-new", run=RUN, agent="root", started_by="root", content=Content.of_text("work on it")
)


async def start_run(desk: Desk) -> None:
    """An agent that works in the background."""
    await desk.ask(START_RUN)


def sending(desk: Desk) -> p.SendMessage:
    """A message of an agent to another."""
    return p.SendMessage(turn=desk.of_turn(), sender="root", agent="root", id="e-sent", content=Content.of_text("look"))


def appending(*authors: str, **more: Any) -> Make:
    """A message with events of the open turn."""

    def made(desk: Desk) -> p.Append:
        events = [encode(desk.session.event(each, "more", turn="e-new")) for each in authors]
        return p.Append(turn=desk.of_turn(), events=events, **more)

    return made


def ending(outcome: p.AnyOutcome) -> Make:
    return lambda desk: p.CloseTurn(turn=desk.of_turn(), agent="root", outcome=outcome)


def changing(change: Any) -> Make:
    return lambda desk: ChangeSchedule(key=KEY, name="hourly", id="hourly", change=change)


def from_event(desk: Desk) -> RetryTurn:
    """Runs the last turn of the session again from its message."""
    raws = [raw for _, raw in desk.session.store.events(KEY)]
    return RetryTurn(
        key=KEY, invocation_id="e-2", runner=desk.runner, from_event=decode_event(raws[-2], 0).id, request="the request"
    )


def with_note(desk: Desk) -> p.AbandonRuns:
    """Gives a run up that has brought the note of its supervisor along."""
    note = p.Note(2, encode(desk.session.event("root", turn="e-new", agent_state={"child": "a"})))
    return p.AbandonRuns(turn=desk.of_turn(), lost=(1,), notes=[note])


LATER = ScheduledTime("hourly", "hourly", int(SOON_S), int(SOON_S) + 1)
PRUNE = PruneSessions(app=APP, before_s=SOON_S)

CHANGING: Mapping[type[p.Message], Example] = {
    p.AppendEventRequest: Example(lambda desk: p.AppendEventRequest(key=KEY, event=said("note")(desk)), [talk]),
    ArchiveOldEvents: Example(lambda _: ArchiveOldEvents(app=APP, before_s=SOON_S), [talk_long], OldEventsArchived),
    AwaitDue: Example(lambda desk: AwaitDue(app=APP, runner=desk.runner), [plan]),
    p.CancelTurn: Example(lambda _: p.CancelTurn(key=PAUSED, invocation_id="e-p"), [pause]),
    ChangeSchedule: Example(changing("pause"), [plan]),
    CreateSchedule: Example(lambda _: CreateSchedule(key=KEY, name="other", id="other", plan=HOURLY)),
    p.CreateSessionRequest: Example(lambda _: p.CreateSessionRequest(key=NEW, state={"a": 1, "user:b": 2})),
    p.DeleteSessionRequest: Example(lambda _: p.DeleteSessionRequest(key=OTHER), [talk_elsewhere]),
    ForgetSession: Example(lambda _: ForgetSession(key=KEY), [talk, remember]),
    ForkSession: Example(lambda _: ForkSession(key=KEY, invocation_id="e-1", fork="fork"), [talk]),
    p.OpenTurn: Example(opening(NEW), again=FOLLOWED),
    PassDueTime: Example(lambda _: PassDueTime(key=KEY, time=LATER, error="E"), [plan]),
    PruneSessions: Example(lambda _: PRUNE, [talk, talk_elsewhere], SessionsPruned),
    RememberSession: Example(lambda _: RememberSession(key=OTHER), [talk_elsewhere]),
    RetryTurn: Example(lambda desk: RetryTurn(key=FAILED, invocation_id="e-f", runner=desk.runner), [fail], p.TurnResumed),
    RewindRequest: Example(lambda _: RewindRequest(key=KEY, invocation_id="e-1"), [talk]),
}
"""Messages that change what the user has, who has no open turn."""

OF_OPEN_TURNS: Mapping[type[p.Message], Example] = {
    p.AbandonRuns: Example(
        lambda desk: p.AbandonRuns(turn=desk.of_turn(), lost=(1,), run="root", times=1, agent="root"), [begin]
    ),
    p.Append: Example(appending("root"), [begin]),
    p.BeginAlone: Example(lambda desk: p.BeginAlone(turn=desk.of_turn(), run="root", attempt=1), [begin]),
    AskParent: Example(lambda _: AskParent(key=OF_RUN, id="e-asks", question="where?"), [begin, start_run]),
    CancelRun: Example(lambda _: CancelRun(key=NEW, run=RUN), [begin, start_run]),
    p.CloseTurn: Example(ending(p.Finished(agent="root")), [begin], "FencedError"),
    p.ReadMessages: Example(lambda desk: p.ReadMessages(turn=desk.of_turn(), agent="root"), [begin, leave], p.MessagesRead),
    ReserveSpending: Example(
        lambda desk: ReserveSpending(turn=desk.of_turn(), agent="root", model="m"), [begin_on_budget], MaySpend
    ),
    p.ResumeTurn: Example(
        lambda desk: p.ResumeTurn(key=NEW, invocation_id="e-new", runner=desk.runner), [begin, lose_runner], p.TurnResumed
    ),
    p.SendMessage: Example(sending, [begin]),
    StartRun: Example(lambda _: START_RUN, [begin]),
    SteerRun: Example(lambda _: SteerRun(key=NEW, run=RUN, id="e-steer", content=Content.of_text("look")), [begin, start_run]),
}
"""Messages that change a turn that is open."""

MOVES: Mapping[type[p.Message], Example] = {
    AdmitUser: Example(lambda _: AdmitUser(app=APP, user="bob", token="a move"), [arrive]),
    BeginArrival: Example(lambda _: BeginArrival(app=APP, user="bob", token="a move", source=1)),
    DropArrival: Example(lambda _: DropArrival(app=APP, user="bob", token="a move"), [arrive]),
    LeaveStore: Example(
        lambda desk: LeaveStore(app=APP, user=USER, to=1, rows=9, token="a move", digest=desk.copied),
        [talk, remember, hold_for_move],
    ),
    RemoveUser: Example(
        lambda _: RemoveUser(app=APP, user=USER, token="a deletion"), [talk, remember, plan, hold_for_deletion], UserRemoved
    ),
    StageUserRows: Example(lambda _: StageUserRows(app=APP, user="bob", token="a move", number=2, raw=encode([])), [arrive]),
}
"""Steps of moves and of a deletion that write."""

OTHERS: Mapping[type[p.Message], Example] = {
    p.AnnounceRunner: Example(lambda _: p.AnnounceRunner(runner="test/other", number=0)),
    CountTurns: Example(lambda _: CountTurns(app=APP)),
    Drain: Example(lambda _: Drain(lease_s=1.0)),
    p.Fetch: Example(lambda _: p.Fetch(key=KEY)),
    FindRuns: Example(lambda _: FindRuns(key=KEY)),
    FindMessage: Example(lambda _: FindMessage(key=KEY, invocation_id="e-1", event_id="m-1")),
    FindOldSessions: Example(lambda _: FindOldSessions(app=APP, before_s=SOON_S, limit=9)),
    FindReader: Example(lambda _: FindReader(key=KEY, event_id="m-1")),
    p.FindTurn: Example(lambda _: p.FindTurn(key=KEY)),
    ForgetStates: Example(lambda _: ForgetStates()),
    GetDrain: Example(lambda _: GetDrain()),
    GetModelCalls: Example(lambda _: GetModelCalls(key=KEY, invocation_id="e-1")),
    p.GetSessionRequest: Example(lambda _: p.GetSessionRequest(key=KEY)),
    p.GetStatistics: Example(lambda _: p.GetStatistics()),
    GetStoreSeat: Example(lambda _: GetStoreSeat(app=APP)),
    p.GetTopology: Example(lambda _: p.GetTopology()),
    GetTurn: Example(lambda _: GetTurn(key=KEY, invocation_id="e-1")),
    GetTurnBudgets: Example(lambda _: GetTurnBudgets(key=KEY, invocation_id="e-1")),
    GetUsage: Example(lambda _: GetUsage(app=APP, user=USER)),
    GetVersions: Example(lambda _: GetVersions(app=APP)),
    ListBatchItems: Example(lambda _: ListBatchItems(app=APP, batch="b", limit=9)),
    ListBatches: Example(lambda _: ListBatches(app=APP, limit=9)),
    p.ListOpenTurns: Example(lambda desk: p.ListOpenTurns(app=APP, runner=desk.runner)),
    ListPending: Example(lambda _: ListPending(app=APP, user=USER)),
    ListSchedules: Example(lambda _: ListSchedules(app=APP, user=USER, limit=9)),
    p.ListSessionsRequest: Example(lambda _: p.ListSessionsRequest(app=APP, user=USER)),
    ListStoreUsers: Example(lambda _: ListStoreUsers(app=APP)),
    ListTurns: Example(lambda _: ListTurns(app=APP, user=USER)),
    p.OpenStore: Example(lambda _: p.OpenStore()),
    PlaceUsers: Example(lambda _: PlaceUsers(app=APP, digests=[b"another user"], store=1)),
    p.ReadLog: Example(lambda _: p.ReadLog(key=KEY)),
    p.ReadTurn: Example(lambda _: p.ReadTurn(key=KEY, invocation_id="e-1")),
    SaveBatch: Example(lambda _: SaveBatch(app=APP, batch=BatchInfo(id="b", name="b", kind="map", begun_s=1.0, updated_s=1.0))),
    SearchMemory: Example(lambda _: SearchMemory(app=APP, user=USER, query="hello")),
    p.Stop: Example(lambda _: p.Stop()),
    p.Subscribe: Example(lambda _: p.Subscribe(subscriber="driver", key=KEY, invocation_id="e-1")),
    TakeStoreSeat: Example(lambda _: TakeStoreSeat(app=APP, seat=StoreSeat("family", 0, 2))),
    p.TellPartial: Example(lambda desk: p.TellPartial(turn=desk.session.turn_ref("e-p", key=PAUSED), events=[])),
    p.Unsubscribe: Example(lambda _: p.Unsubscribe(subscriber="unknown")),
    UseVersions: Example(lambda _: UseVersions(record=NO_VERSIONS)),
    WatchStates: Example(lambda _: WatchStates(shard=0)),
}
"""Messages that change nothing of what the user has."""

OF_NO_USER = (PlaceUsers, SaveBatch, TakeStoreSeat)
"""Those of them that write something else."""

WRITES: Mapping[str, Example] = {
    **{kind.__name__: each for kind, each in {**CHANGING, **OF_OPEN_TURNS, **MOVES}.items()},
    **{kind.__name__: OTHERS[kind] for kind in OF_NO_USER},
    "AbandonRuns-note": Example(with_note, [begin]),
    "Append-end": Example(appending("root", outcome=p.Finished(agent="root"), selected="root"), [begin]),
    "Append-several": Example(appending("root", "a"), [begin]),
    "Append-temp": Example(appending("root", temp={"k": 1}), [begin]),
    "AwaitDue": Example(CHANGING[AwaitDue].make, [plan_soon, plan], DueReply),
    "CancelTurn-open": Example(
        lambda desk: p.CancelTurn(key=NEW, invocation_id="e-new", runner=desk.runner), [begin, call_tool, lose_runner]
    ),
    "ChangeSchedule-delete": Example(changing("delete"), [plan]),
    "ChangeSchedule-resume": Example(changing("resume"), [plan, pause_schedule]),
    "CloseTurn-cancelled": Example(ending(p.Cancelled(agent="root")), [begin, call_tool], "FencedError"),
    "CloseTurn-paused": Example(ending(p.Paused(agent="root", call_ids=("c1",))), [begin, call_tool], "FencedError"),
    "DeleteSessionRequest-lost-turn": Example(lambda _: p.DeleteSessionRequest(key=NEW), [begin, lose_runner]),
    "OpenTurn-answer": Example(answering(), [pause], p.TurnResumed),
    "OpenTurn-answer-repeatable": Example(answering(repeatable=True, only_waiting=True), [pause], p.TurnResumed),
    "OpenTurn-due": Example(opening(KEY, repeatable=True, due=LATER), [talk, plan], FOLLOWED),
    "OpenTurn-next": Example(opening(KEY, subscriber="d"), [talk], FOLLOWED),
    "OpenTurn-repeatable": Example(opening(KEY, repeatable=True), [talk], FOLLOWED),
    "OpenTurn-steer": Example(leaving, [begin], p.MessageLeft),
    "OpenTurn-state": Example(opening(KEY, state_delta={"user:n": 9, "k": 1}), [talk], FOLLOWED),
    "RetryTurn-from-event": Example(from_event, [talk], p.TurnResumed),
}
"""Messages that write, by name; the first word is their class."""


def reads() -> Mapping[type[p.Message], Example]:
    """Messages that write nothing."""
    return {kind: each for kind, each in OTHERS.items() if kind not in OF_NO_USER}


async def prepared(desk: Desk, example: Example) -> p.Message:
    """The message of an example, once all that it needs is there."""
    await desk.done(p.OpenStore())
    for need in example.needs:
        await need(desk)
    return example.make(desk)
