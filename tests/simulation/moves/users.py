"""Users who talk while they are moved, and what they know to be true: what was acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from actors.errors import RaygroveError, SessionExistsError, UserElsewhereError
from actors.layers.placing.client import StoresSessionRef
from actors.layers.schedules.messages import ChangeSchedule, CreateSchedule, ListSchedules, ScheduleChange
from actors.layers.stores.schedule import SchedulePlan, ScheduleRow, Timing
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.content import Content
from actors.messages.event import Event, decode_event
from actors.messages.session import SessionKey

APP = "sim"
PLAN = SchedulePlan(timing=Timing(every_s=100_000), content=Content.of_text("tick"))

CHANGES: Sequence[ScheduleChange] = ("pause", "resume", "pause", "resume", "delete")


class Known(msgspec.Struct):
    """What a user knows.

    Attributes:
        sessions: the ids of the events of each session, in order.
        schedules: whether each is paused.
        gone: sessions, and schedules, that were deleted.
        unsure: those of which the last request has failed: it may have been done.
    """

    sessions: dict[str, list[str]] = {}
    schedules: dict[str, bool] = {}
    gone: set[str] = set()
    unsure: set[str] = set()


class User:
    """A user.

    Args:
        name: whose.
        ref: the client of the user's program.
        chance: decides what the user does.

    Attributes:
        known: what was acknowledged.
        problems: what may never happen.
        errors: of requests that have failed.
    """

    def __init__(self, name: str, ref: StoresSessionRef, chance: random.Random) -> None:
        self.name = name
        self.known = Known()
        self.problems: list[str] = []
        self.errors: list[str] = []
        self._ref = ref
        self._chance = chance
        self._numbers = count(1)

    async def talk(self, number: int) -> None:
        """Do so many things, one after the other."""
        for _ in range(number):
            await asyncio.sleep(self._chance.uniform(0, 4))
            sessions = [name for name in self.known.sessions if name not in self.known.unsure]
            schedules = [name for name in self.known.schedules if name not in self.known.unsure]
            does: list[Any] = [self._create, self._create_schedule]
            if sessions:
                does += [self._append, self._append, self._turn, self._turn, self._delete]
            if schedules:
                does += [self._change_schedule] * 4
            did = self._chance.choice(does)
            named = sessions if did in (self._append, self._turn, self._delete) else schedules
            about = self._chance.choice(named) if did not in (self._create, self._create_schedule) else f"n{next(self._numbers)}"
            try:
                await asyncio.gather(did(about), self._look())
            except RaygroveError as error:
                if "NotFound" in type(error).__name__:
                    self.problems.append(f"{self.name}: {did.__name__} {about}: {error!r}")
                self.errors.append(f"{self.name}: {did.__name__} {about}: {error!r}")
                self.known.unsure.add(about)

    async def _look(self) -> None:
        """Another program of the user asks at the same time."""
        with suppress(UserElsewhereError):
            await self._ref.ask(p.ListSessionsRequest(app=APP, user=self.name))

    def _key(self, session: str) -> SessionKey:
        return SessionKey(APP, self.name, session)

    def _event(self, author: str, invocation_id: str) -> Event:
        number = next(self._numbers)
        return Event(
            id=f"{self.name}-{number}",
            invocation_id=invocation_id,
            author=author,
            timestamp=float(number),
            content=Content.of_text(f"text {number}"),
        )

    async def _create(self, session: str) -> None:
        # Where the request was sent again.
        with suppress(SessionExistsError):
            await self._ref.ask(p.CreateSessionRequest(key=self._key(session), again=True))
        self.known.sessions[session] = []

    async def _append(self, session: str) -> None:
        event = self._event("user", "e-none")
        await self._ref.append_event(p.AppendEventRequest(key=self._key(session), event=encode(event)))
        self.known.sessions[session].append(event.id)

    async def _delete(self, session: str) -> None:
        await self._ref.ask(p.DeleteSessionRequest(key=self._key(session)))
        del self.known.sessions[session]
        self.known.gone.add(session)

    async def _turn(self, session: str) -> None:
        invocation_id = f"e-{self.name}-{next(self._numbers)}"
        said, answer = self._event("user", invocation_id), self._event("root", invocation_id)
        opening = p.OpenTurn(
            key=self._key(session), invocation_id=invocation_id, event=encode(said), runner="runner", repeatable=True
        )
        while True:
            try:
                begun = await self._ref.open_turn(opening)
            except UserElsewhereError:
                # As a driver does, which asks again once it knows where.
                continue
            break
        if not isinstance(begun, p.TurnBegun | p.TurnResumed):
            self.problems.append(f"{self.name}: {begun!r} in reply to OpenTurn of {session}")
            return
        await asyncio.sleep(self._chance.uniform(0, 1))
        turn = p.TurnRef(self._key(session), invocation_id, begun.epoch, generation=begun.generation)
        finished = p.Finished(agent="root")
        await self._ref.ask(p.Append(turn=turn, events=[encode(answer)], outcome=finished, selected="root"))
        self.known.sessions[session] += [said.id, answer.id]

    async def _create_schedule(self, name: str) -> None:
        (await self._ref.ask(CreateSchedule(key=self._key("s"), name=name, id=name, plan=PLAN))).schedules[0]
        self.known.schedules[name] = False

    async def _change_schedule(self, name: str) -> None:
        change: ScheduleChange = self._chance.choice(CHANGES)
        message = ChangeSchedule(key=self._key("s"), name=name, id=name, change=change)
        row = next(iter((await self._ref.ask(message)).schedules), None)
        if change == "delete":
            del self.known.schedules[name]
            self.known.gone.add(name)
            return
        if row is None:
            self.problems.append(f"{self.name}: schedule {name} is gone, which was to {change}")
        self.known.schedules[name] = change == "pause"

    async def found(self) -> tuple[dict[str, list[str]], list[ScheduleRow]]:
        """What the user finds: the ids of the events of each session, and the schedules."""
        listed = await self._ref.ask(p.ListSessionsRequest(app=APP, user=self.name))
        events: dict[str, list[str]] = {}
        for info in listed.sessions:
            session = (await self._ref.ask(p.GetSessionRequest(key=info.key))).session
            raws = session.events if session is not None else ()
            events[info.key.session] = [decode_event(stored.raw, stored.seq).id for stored in raws]
        listed_schedules = await self._ref.ask(ListSchedules(app=APP, user=self.name, limit=1_000))
        return events, list(listed_schedules.schedules)
