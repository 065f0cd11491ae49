"""A toolset with which agents remind their users: schedules of their own, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b

from actors.definitions.tools.base import Tool, Toolset
from actors.definitions.tools.context import ReadonlyContext, ToolContext
from actors.definitions.tools.function import FunctionTool
from actors.errors import DefinitionError, InvalidScheduleError, RequestError
from actors.errors.hints import explains_wrong_calls
from actors.layers.schedules.client import ScheduleClient
from actors.layers.schedules.rules import DAY_S, check_interval, next_due_s, shown_time, timing_of, zone_of
from actors.layers.stores.schedule import Schedule, SchedulePlan, Timing
from actors.messages.content import Content
from actors.messages.json_types import JsonObject

PREAMBLE = "It is time for a reminder. Remind the user, as was asked for earlier, of this: "
"""Begins the message that the session gets."""


class Reminders(Toolset):
    """Stands in an agent's `tools`: the agent reminds its user, once or again and again, in the session in which it was asked.

    It has three tools: `remind_me`, `list_reminders` and `cancel_reminder`. They see the reminders of the user that agents have
    made, and no other schedule. At its time the session gets a message, and the agent answers it with the reminder.

    Args:
        most: reminders that a user may have; default 20.
        max_ahead_days: days until the first time; default 366.
        min_interval_s: seconds between two times of one that repeats; default 3,600.
        timezone: of times without an offset, as the IANA database names it, unless the model says another; default "UTC".

    Raises:
        DefinitionError: an argument is out of range, or the time zone is not known.
    """

    @explains_wrong_calls
    def __init__(self, *, most: int = 20, max_ahead_days: int = 366, min_interval_s: int = 3_600, timezone: str = "UTC") -> None:
        for name, value in (("most", most), ("max_ahead_days", max_ahead_days), ("min_interval_s", min_interval_s)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DefinitionError(f"Reminders: {name} must be a whole number from 1 on, not {value!r}")
        try:
            zone_of(timezone)
        except InvalidScheduleError as error:
            raise DefinitionError(f"Reminders: {error}") from None
        self._most = most
        self._max_ahead_days = max_ahead_days
        self._min_interval_s = min_interval_s
        self._timezone = timezone

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The three tools."""
        return [FunctionTool(each) for each in (self.remind_me, self.list_reminders, self.cancel_reminder)]

    async def remind_me(
        self,
        message: str,
        context: ToolContext,
        at: str = "",
        in_minutes: float = 0,
        cron: str = "",
        timezone: str = "",
    ) -> JsonObject:
        """Remind the user of something later, in this conversation. Give one of at, in_minutes and cron.

        Args:
            message: what to remind the user of.
            at: the time, such as 2026-11-30T08:00.
            in_minutes: minutes from now.
            cron: for a reminder that repeats: minute, hour, day of the month, month, day of the week, such as 30 8 * * MON-FRI.
            timezone: of at and cron, such as Europe/Berlin, if it is known.
        """
        try:
            schedules = _schedules(context)
            timing = self._timing(schedules.clock.now_s(), at, in_minutes, cron, timezone or self._timezone)
            # The call may be repeated after a loss: the same call makes the same reminder.
            digest = blake2b(f"{context.invocation_id} {context.function_call_id}".encode(), digest_size=16).hexdigest()
            plan = SchedulePlan(timing=timing, content=Content.of_text(PREAMBLE + message), agent=context.agent_name)
            made = await schedules.create(context.session_key, f"reminder-{digest[:8]}", plan, f"s-{digest}", self._most)
        except RequestError as error:
            return {"error": str(error)}
        return _shown(made)

    async def list_reminders(self, context: ToolContext) -> JsonObject:
        """List the reminders of the user that are still to come, and the time that it is now."""
        schedules = _schedules(context)
        return {
            "now": _local(schedules.clock.now_s(), self._timezone),
            "reminders": [_shown(each) for each in await _own(schedules, context.user_id)],
        }

    async def cancel_reminder(self, name: str, context: ToolContext) -> JsonObject:
        """Cancel a reminder of the user.

        Args:
            name: the reminder's name, as list_reminders has it.
        """
        schedules = _schedules(context)
        names = [each.name for each in await _own(schedules, context.user_id)]
        if name not in names:
            return {"error": f"there is no reminder {name!r}. There are: {', '.join(names) or 'none'}"}
        await schedules.change(context.user_id, name, "delete")
        return {"cancelled": name}

    def _timing(self, now_s: float, at: str, in_minutes: float, cron: str, timezone: str) -> Timing:
        moment = now_s + in_minutes * 60 if in_minutes else None
        if at and moment is not None:
            raise InvalidScheduleError("a reminder", "it has at and in_minutes: give one of at, in_minutes and cron")
        timing = timing_of(cron or None, None, at or moment, timezone)
        check_interval(timing, now_s, self._min_interval_s, "this agent")
        due_s = next_due_s(timing, now_s)
        if due_s is not None and due_s - now_s > self._max_ahead_days * DAY_S:
            why = f"this agent reminds of nothing later than {self._max_ahead_days} days from now"
            raise InvalidScheduleError(f"a reminder at {shown_time(due_s)}", why)
        return timing


def _schedules(context: ToolContext) -> ScheduleClient:
    schedules = context.reach(ScheduleClient)
    if schedules is None:
        raise RequestError("there are no schedules outside of a run")
    return schedules


async def _own(schedules: ScheduleClient, user: str) -> list[Schedule]:
    """The schedules of a user that agents have made, and that are due yet."""
    return [each for each in await schedules.list(user) if each.agent and each.next_s is not None]


def _shown(schedule: Schedule) -> JsonObject:
    """A reminder as models see it."""
    shown: JsonObject = {"name": schedule.name, "message": schedule.message.text.removeprefix(PREAMBLE)}
    if schedule.next_s is not None:
        shown["next"] = _local(schedule.next_s, schedule.timezone)
    if schedule.cron:
        shown |= {"cron": schedule.cron, "timezone": schedule.timezone}
    return shown


def _local(moment_s: float, timezone: str) -> str:
    return datetime.fromtimestamp(moment_s, zone_of(timezone)).isoformat(timespec="seconds")
