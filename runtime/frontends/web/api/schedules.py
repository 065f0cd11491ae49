"""Schedules: create, list, read, pause, resume and delete those of a user; start a turn of one at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import Response

from actors.layers.stores.schedule import MissedPolicy, Schedule
from actors.messages.json_types import JsonObject
from runtime.driver.operation import Id, Limit
from runtime.frontends.web.api.lists import decode_schedule, encode_schedule, page_of
from runtime.frontends.web.api.turn_forms import Number, TurnOptions, run_config
from runtime.frontends.web.api.waiting import accepted_id
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import shown_schedule


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A schedule to create. Give exactly one of `cron`, `everyS` and `at`.

    Attributes:
        name: among those of the user.
        message: what each turn begins with: a text, or a Content such as `{"role": "user", "parts": [{"text": "hi"}]}`.
        session_id: the session that gets it; null: one of the name of the schedule.
        cron: five fields: minute, hour, day of the month, month, day of the week.
        every_s: seconds between two due times.
        at: the only due time: a text as ISO 8601 has it, or seconds since the epoch.
        timezone: of `cron`, and of an `at` without an offset, such as `Europe/Berlin`; null: UTC.
        missed: what becomes of due times at which the deployment was down.
        config: options of each turn.
    """

    name: Id
    message: str | JsonObject
    session_id: Id | None = None
    cron: str | None = None
    every_s: Number | None = None
    at: str | float | None = None
    timezone: str | None = None
    missed: MissedPolicy = "once"
    config: TurnOptions = TurnOptions()


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a schedule is paused from now on."""

    paused: bool


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of schedules by user and name; `next`: the `after` of the next page."""

    schedules: Sequence[Schedule]
    next: str | None = None


class SchedulesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which page of a list; `after`: the `next` of the page before it."""

    limit: Limit = 100
    after: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class StartedTurn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn that has begun, or waits in the line of its session."""

    invocation_id: str


async def create_schedule(call: Call) -> Response:
    """Create a schedule: each of its due times makes one turn."""
    given = await call.body(NewSchedule)
    schedule = await call.runtime.aio.schedules.create(
        given.name,
        user_id=call.user_id,
        message=given.message,
        session_id=given.session_id,
        cron=given.cron,
        every=given.every_s,
        at=given.at,
        timezone=given.timezone,
        missed=given.missed,
        run_config=run_config(call, given.config, streams=False),
    )
    return json_response(_view(call, schedule), 201, {"Location": call.url("schedules", schedule.name)})


async def list_schedules(call: Call) -> ScheduleList:
    """List the schedules of a user; with credentials for any user, and without a user, those of all users."""
    query = call.query(SchedulesQuery)
    user_id, schedules = call.any_user_id, call.runtime.aio.schedules
    page, last = await page_of(
        lambda limit, after: schedules.list(user_id, limit=limit, after=after), query.limit, decode_schedule(query.after)
    )
    return ScheduleList(schedules=[_view(call, each) for each in page], next=encode_schedule(last))


async def get_schedule(call: Call) -> Schedule:
    """Read a schedule: what it sends, and when it is due next."""
    return _view(call, await call.runtime.aio.schedules.get(call.path("schedule"), user_id=call.user_id))


async def change_schedule(call: Call) -> Schedule:
    """Pause a schedule, or have it go on. What is due while it is paused makes no turn."""
    given = await call.body(ScheduleChanges)
    schedules = call.runtime.aio.schedules
    change = schedules.pause if given.paused else schedules.resume
    return _view(call, await change(call.path("schedule"), user_id=call.user_id))


async def delete_schedule(call: Call) -> None:
    """Delete a schedule. A turn that has begun goes on."""
    await call.runtime.aio.schedules.delete(call.path("schedule"), user_id=call.user_id)


async def run_schedule(call: Call) -> Response:
    """Start a turn of a schedule now, and say where to join it. Its due times stay as they are."""
    name, schedules = call.path("schedule"), call.runtime.aio.schedules
    session_id = (await schedules.get(name, user_id=call.user_id)).session_id
    turn = await schedules.run_now(name, user_id=call.user_id)
    invocation_id = await accepted_id(call, turn, (call.user_id, session_id)) or turn.invocation_id
    place = call.url("sessions", session_id, "turns", invocation_id)
    turn.detach()
    return json_response(StartedTurn(invocation_id=invocation_id), 202, {"Location": place})


def _view(call: Call, schedule: Schedule) -> Schedule:
    return shown_schedule(schedule, for_operator=call.principal.is_admin)


_SCHEDULES = "/v1/apps/{app}/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{schedule}}"

OPERATIONS = [
    HttpOperation("GET", _SCHEDULES, list_schedules, query=SchedulesQuery, gives=ScheduleList, users="any"),
    HttpOperation("POST", _SCHEDULES, create_schedule, body=NewSchedule, gives=Schedule, status=201),
    HttpOperation("GET", _SCHEDULE, get_schedule, gives=Schedule),
    HttpOperation("PATCH", _SCHEDULE, change_schedule, body=ScheduleChanges, gives=Schedule),
    HttpOperation("DELETE", _SCHEDULE, delete_schedule, status=204),
    HttpOperation("POST", f"{_SCHEDULE}/run", run_schedule, gives=StartedTurn, status=202),
]
"""What can be done with schedules."""
