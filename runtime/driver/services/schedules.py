"""The schedules service: `rt.schedules` and `rt.aio.schedules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.errors import RequestError
from actors.layers.schedules.client import ScheduleClient
from actors.layers.schedules.messages import ScheduleChange
from actors.layers.schedules.rules import At, Every, timing_of, turn_config
from actors.layers.stores.schedule import MISSED, MissedPolicy, Schedule, SchedulePlan
from actors.messages.config import RunConfig
from actors.rules.checks import user_message as messages
from actors.rules.checks.ids import checked_id, checked_key, checked_known_id
from runtime.driver.arguments import RunOptions, checked_choice, checked_number, has_function_responses, run_config_of, to_content
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.turn import Turn
from runtime.driver.waits import M, RuntimeService, waits

RunTurn = Callable[..., Turn]
"""Starts a turn: see Runtime.run."""

Schedules = list[Schedule]
"""Schedules; the service has a method `list`."""


class SchedulesService(RuntimeService[M]):
    """Messages that sessions get at times.

    Args:
        run: starts a turn.
    """

    def __init__(self, client: EngineClient, mode: type[M], run: RunTurn) -> None:
        super().__init__(client, mode)
        self._run = run

    @waits
    async def create(
        self,
        name: str,
        *,
        user_id: str,
        message: Any,
        session_id: str | None = None,
        cron: str | None = None,
        every: Every | None = None,
        at: At | None = None,
        timezone: str | None = None,
        missed: MissedPolicy = "once",
        run_config: RunOptions | None = None,
    ) -> Schedule:
        """Have a session get a message at times. Each due time makes one turn, also when processes are lost.

        Args:
            name: among those of the user.
            message: what each turn begins with: see `Runtime.run`.
            session_id: the session, which is created when it is not there; None: one of the name of the schedule.
            cron: five fields, such as "30 8 * * MON-FRI": minute, hour, day of the month, month, day of the week.
            every: a timedelta, or seconds, from now on.
            at: one time: a datetime, a text as "2026-11-30T08:00", or seconds since the epoch.
            timezone: of `cron`, and of an `at` without an offset, such as "Europe/Berlin"; None: UTC.
            missed: of the due times at which the deployment was down, "once": the newest makes a turn when it is up again;
                "all": each does, the newest 100 at most; "skip": none does.
            run_config: options of each turn.

        Returns:
            The schedule, with its first due time.

        Raises:
            InvalidScheduleError: there is not exactly one of `cron`, `every` and `at`, or it is wrong, has passed, is too often
                or too far ahead.
            ScheduleExistsError: the user has one of that name.
            TooManySchedulesError: the user has as many as RAYGROVE_MAX_USER_SCHEDULES allows.
            TooLargeError: the message has more than 64 KiB.
            InvalidIdError, InvalidMessageError, RequestError: another argument is wrong, such as the name of an agent in
                `run_config`.
            StoreError: the store failed, or is an object of your own that keeps no schedules.
        """
        name = checked_id("schedule name", name)
        key = checked_key(self._client.app_name, user_id, session_id if session_id is not None else name)
        content = messages.checked(to_content(message))
        if has_function_responses(content):
            raise RequestError("a schedule sends messages, and answers no call: use rt.answer")
        checked_choice("missed", missed, MISSED)
        timing = timing_of(cron, every, at, timezone)
        plan = SchedulePlan(timing=timing, missed=missed, content=content, config=run_config_of(run_config))
        return await self._schedules.create(key, name, plan)

    @waits
    async def list(self, user_id: str | None = None, *, limit: int = 1_000, after: Schedule | None = None) -> Schedules:
        """List schedules by user and name.

        Args:
            user_id: of that user only; None: of all users of the app.
            limit: at most so many.
            after: the last schedule of an earlier list, whose next page is wanted.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        user = checked_known_id("user id", user_id) if user_id is not None else None
        if after is not None and not isinstance(after, Schedule):
            raise RequestError(f"after must be a Schedule of an earlier list, not {type(after).__name__}")
        place = (after.user_id, after.name) if after is not None else None
        return list(await self._schedules.list(user, checked_number("limit", limit), place))

    @waits
    async def get(self, name: str, *, user_id: str) -> Schedule:
        """Read a schedule. Raises ScheduleNotFoundError, InvalidIdError, StoreError."""
        return await self._schedules.get(*_checked(name, user_id))

    @waits
    async def pause(self, name: str, *, user_id: str) -> Schedule:
        """Have a schedule make no turns until `resume`. Raises ScheduleNotFoundError, InvalidIdError, StoreError."""
        return await self._change(name, user_id, "pause")

    @waits
    async def resume(self, name: str, *, user_id: str) -> Schedule:
        """Have a paused schedule go on: what was due meanwhile makes no turn.

        Raises:
            InvalidScheduleError: its time has passed.
            ScheduleNotFoundError, InvalidIdError, StoreError: see `get`.
        """
        return await self._change(name, user_id, "resume")

    @waits
    async def run_now(self, name: str, *, user_id: str) -> Turn:
        """Start a turn of a schedule now, also of a paused one. Its due times stay as they are.

        Returns:
            The turn, which runs already and goes on when its iteration is left.

        Raises:
            ScheduleNotFoundError, InvalidIdError, StoreError: see `get`.
        """
        schedule = await self._schedules.get(*_checked(name, user_id))
        return self._run(
            user_id=schedule.user_id,
            session_id=schedule.session_id,
            message=schedule.message,
            run_config=turn_config(schedule.run_config or RunConfig(), schedule.name),
            auto_create_session=True,
            on_leave="continue",
        )

    @waits
    async def delete(self, name: str, *, user_id: str) -> None:
        """Delete a schedule. A turn that has begun goes on. Raises ScheduleNotFoundError, InvalidIdError, StoreError."""
        await self._schedules.change(*_checked(name, user_id), "delete")

    async def _change(self, name: str, user_id: str, change: ScheduleChange) -> Schedule:
        changed = await self._schedules.change(*_checked(name, user_id), change)
        assert changed is not None
        return changed

    @property
    def _schedules(self) -> ScheduleClient:
        return ScheduleClient(self._client.session, self._client.app_name)


def _checked(name: str, user_id: str) -> tuple[str, str]:
    return checked_known_id("user id", user_id), checked_known_id("schedule name", name)
