"""Schedules as a service: they are created, listed, paused, resumed and deleted; Runners wait for those that are due."""

from __future__ import annotations

import math

import msgspec

from actors.actor import Handler, Handlers
from actors.errors import InvalidScheduleError, ScheduleExistsError, TooLargeError, TooManySchedulesError
from actors.layers.holds import UserHolds
from actors.layers.schedules.due_times import LONGEST_NAP_S, DueTimes
from actors.layers.schedules.messages import (
    AwaitDue,
    ChangeSchedule,
    CreateSchedule,
    DueReply,
    ListSchedules,
    PassDueTime,
    SchedulesReply,
)
from actors.layers.schedules.rules import first_due_s, next_due_s, shown_time
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import AddSchedule, RemoveSchedule, SetDueTime
from actors.layers.stores.schedule import ScheduleRow
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import KIB
from actors.messages.protocol.base import Message, Request
from actors.messages.protocol.turns import MESSAGE
from actors.messages.session import SessionKey
from actors.session.service import SessionParts, SessionService

MAX_BYTES = 64 * KIB
"""The encoded plan of a schedule: many of them are due at once, and travel in one reply."""


class Schedules(SessionService):
    """Answers the requests about schedules of this actor's sessions.

    Attributes:
        due: what is due of them.
    """

    def __init__(self, parts: SessionParts, user_holds: UserHolds) -> None:
        self._parts = parts
        self._access = parts.access
        self._store = store_of(parts.access)
        environment = parts.environment
        self.due = DueTimes(
            parts.access,
            parts.shard,
            environment.now_s,
            parts.tallies,
            user_holds,
            LONGEST_NAP_S if environment.looks_again else math.inf,
        )
        parts.due_refusals.append(self.due.refusal)
        parts.due_hooks.append(self.due)
        self._limits = parts.environment.limits

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            CreateSchedule: self.create_schedule,
            ListSchedules: self.list_schedules,
            ChangeSchedule: self.change_schedule,
            AwaitDue: self.await_due,
            PassDueTime: self.pass_due_time,
        }

    def around(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """While a turn of a schedule begins, or waits in line, its due time is not missed."""
        return (lambda message: self._open(message, handler)) if kind is p.OpenTurn else handler

    async def _open(self, message: p.OpenTurn, handler: Handler) -> Message:
        if message.due is None:
            return await handler(message)
        with self.due.opening(message.key, message.due.id):
            return await handler(message)

    async def close(self) -> None:
        """End the waits of Runners."""
        self.due.close()

    async def create_schedule(self, message: CreateSchedule) -> SchedulesReply:
        """Create a schedule, unless this very request has done so.

        Raises:
            ScheduleExistsError: the user has one of that name.
            InvalidScheduleError: it is never due, too often, or too far ahead.
            UnknownAgentError: its options have a budget of an agent that there is not.
            TooManySchedulesError: the user has as many as may be.
            TooLargeError: the message is larger than an event may be.
            StoreError: it cannot be stored.
        """
        key, name = message.key, message.name
        same = await self._find(key, name)
        if same is None:
            self._check_number(message, await self._access.read(self._store.schedules, key.app, key.user))
            await self.due.write(key, [AddSchedule(key, self._new(message))])
            # Another Session actor may have created one of that name for a session of its own.
            same = await self._find(key, name)
        if same is None or same.id != message.id:
            raise ScheduleExistsError(name, key.user)
        self.due.note_due(same.due_s)
        return SchedulesReply(schedules=[same])

    async def list_schedules(self, message: ListSchedules) -> SchedulesReply:
        """List schedules. Raises StoreError."""
        if message.name and message.user is not None:
            row = await self._access.read(self._store.schedule, message.app, message.user, message.name)
            return SchedulesReply(schedules=[row] if row is not None else [])

        def found() -> list[ScheduleRow]:
            rows, after = list[ScheduleRow](), message.after
            while True:
                page = self._store.schedules(message.app, message.user, limit=message.limit, after=after)
                rows += [row for row in page if not row.name.startswith(MESSAGE)]
                if len(page) < message.limit or len(rows) >= message.limit:
                    return rows[: message.limit]
                after = (page[-1].key.user, page[-1].name)

        return SchedulesReply(schedules=await self._access.read(found))

    async def change_schedule(self, message: ChangeSchedule) -> SchedulesReply:
        """Pause, resume or delete a schedule. What is done already is no error.

        Raises:
            InvalidScheduleError: it would never be due again.
            StoreError: it cannot be stored.
        """
        key, name = message.key, message.name
        async with self.due.changing(key, message.id):
            if message.change == "delete":
                await self.due.write(key, [RemoveSchedule(key, name, message.id)])
                return SchedulesReply()
            row = await self._find(key, name)
            if row is not None and row.id == message.id:
                if message.change == "pause" and not row.paused:
                    await self.due.write(key, [SetDueTime(key, name, row.id, None, paused=True)])
                if message.change == "resume" and row.due_s is None:
                    # What was due while it was paused was not missed.
                    due_s = self._next_due_s(row)
                    await self.due.write(key, [SetDueTime(key, name, row.id, due_s, paused=False)])
                    self.due.note_due(due_s)
                row = await self._find(key, name)
        return SchedulesReply(schedules=[row] if row is not None and row.id == message.id else [])

    async def await_due(self, message: AwaitDue) -> DueReply | p.NotLeader:
        """Wait until something is due, and return it. Raises StoreError."""
        refusal = self._parts.runners.refusal(message.runner, message.term)
        return refusal if refusal is not None else await self.due.next_due(message)

    async def pass_due_time(self, message: PassDueTime) -> p.Ack:
        """Have a schedule go on to its next due time. Raises StoreError."""
        # A message that begins no turn is of no use any more, unless it is for an agent that may run again.
        is_useless = message.time.is_message and not message.time.is_sent
        await self.due.go_on(message.key, message.time, "" if is_useless else message.error)
        return p.Ack()

    def _check_number(self, message: CreateSchedule, others: list[ScheduleRow]) -> None:
        key, limits = message.key, self._limits
        others = [other for other in others if not other.name.startswith(MESSAGE)]
        if len(others) >= limits.max_user_schedules:
            raise TooManySchedulesError(key.user, len(others), "max_user_schedules")
        if message.most_of_agents is not None:
            of_agents = sum(1 for other in others if other.plan.agent)
            if of_agents >= message.most_of_agents:
                raise TooManySchedulesError(key.user, of_agents, "the toolset")

    def _new(self, message: CreateSchedule) -> ScheduleRow:
        now_s = self.due.now_s()
        topology = self._parts.versions.topology("")
        for name in message.plan.config.agent_budgets or ():
            _ = topology[name]
        timing = msgspec.structs.replace(message.plan.timing, start_s=int(now_s))
        due_s = first_due_s(timing, now_s, self._limits)
        raw = encode(msgspec.structs.replace(message.plan, timing=timing))
        if len(raw) > MAX_BYTES:
            advice = "save what is large with rt.artifacts.save, and say its name in the message"
            raise TooLargeError(f"schedule {message.name!r}", len(raw), "a schedule", MAX_BYTES, advice)
        return ScheduleRow(key=message.key, name=message.name, id=message.id, due_s=due_s, raw=raw)

    def _next_due_s(self, row: ScheduleRow) -> int:
        timing = row.plan.timing
        due_s = next_due_s(timing, self.due.now_s())
        if due_s is None:
            why = f"its time has passed: {shown_time(timing.at_s)}" if timing.at_s else "it is never due again"
            raise InvalidScheduleError(f"schedule {row.name!r}", f"{why}. Run it now, or create another one")
        return due_s

    async def _find(self, key: SessionKey, name: str) -> ScheduleRow | None:
        return await self._access.read(self._store.schedule, key.app, key.user, name)
