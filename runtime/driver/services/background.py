"""Background runs: `rt.background` and `rt.aio.background`, `raygrove background`, and `/v1/apps/…/background` of a session."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from actors.errors import RequestError
from actors.interfaces.clock import WallClock
from actors.layers.background.client import SessionRuns
from actors.layers.background.messages import Wanted
from actors.messages.json_types import JsonObject
from actors.messages.turn_info import BackgroundRun
from actors.rules.checks import user_message as messages
from actors.rules.checks.ids import checked_known_key
from runtime.driver.arguments import checked_choice, has_function_responses, to_content
from runtime.driver.operation import AppOperation, Command, Option, Table, local_time, table
from runtime.driver.waits import Awaited, M, RuntimeService, waits

MOST_SHOWN = 60
"""Characters of a result in a table; `--json` shows all of them."""

Runs = list[BackgroundRun]
"""Background runs; the service has a method `list`."""


class BackgroundService(RuntimeService[M]):
    """Agents that work on in the background, beside the session in which they were started."""

    @waits
    async def list(self, user_id: str, session_id: str) -> Runs:
        """The runs that were started in a session, in their order. Raises InvalidIdError, StoreError."""
        return list(await self._of(user_id, session_id).list())

    @waits
    async def get(self, user_id: str, session_id: str, run: str | BackgroundRun) -> BackgroundRun:
        """A run, by its id or as it was. Raises RunNotFoundError, InvalidIdError, StoreError."""
        [found] = await self._of(user_id, session_id).list([_id(run)])
        return found

    @waits
    async def wait(
        self,
        user_id: str,
        session_id: str,
        runs: Sequence[str | BackgroundRun] = (),
        *,
        wanted: Wanted = "all",
        timeout_s: float = 3_600.0,
    ) -> Runs:
        """Wait until runs have ended, and return them as they are then.

        Args:
            runs: the runs, or their ids; empty: all of the session.
            wanted: whether to wait for all of them, or for any.
            timeout_s: seconds to wait at most.

        Raises:
            RunNotFoundError: one is not there.
            InvalidIdError, RequestError: an argument is wrong.
            StoreError: the store failed.
        """
        checked_choice("wanted", wanted, ("any", "all"))
        return list(await self._of(user_id, session_id).wait([_id(run) for run in runs], wanted, timeout_s))

    @waits
    async def steer(self, user_id: str, session_id: str, run: str | BackgroundRun, message: Any) -> BackgroundRun:
        """Leave a message for the agent of a run, which reads it before its next model call.

        Args:
            message: see `Runtime.run`.

        Raises:
            RunNotFoundError: it is not there.
            RequestError: it has ended, or the message answers a call.
            InvalidIdError, InvalidMessageError: an argument is wrong.
            StoreError: it could not be stored.
        """
        content = messages.checked(to_content(message))
        if has_function_responses(content):
            raise RequestError("what is said to a background run answers no call: use rt.answer")
        return await self._of(user_id, session_id).steer(_id(run), content, f"steer-{uuid.uuid4().hex}")

    @waits
    async def cancel(self, user_id: str, session_id: str, run: str | BackgroundRun) -> BackgroundRun:
        """Ask for the end of a run, and of those that it has started: `wait` for it. One that has ended stays as it is.

        Raises RunNotFoundError, InvalidIdError, StoreError.
        """
        return await self._of(user_id, session_id).cancel(_id(run))

    def _of(self, user_id: str, session_id: str) -> SessionRuns:
        key = checked_known_key(self._client.app_name, user_id, session_id)
        return SessionRuns(self._client.session, key, WallClock())


def _id(run: str | BackgroundRun) -> str:
    return run.id if isinstance(run, BackgroundRun) else run


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    """Background runs of a session, in the order in which they were started."""

    runs: Sequence[BackgroundRun]


class RunMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to the agent of a background run: a text, or a Content such as `{"role": "user", "parts": [{"text": "hi"}]}`."""

    message: Annotated[str | JsonObject, Option("What its agent is to know, or to do.", is_argument=True)]


async def list_runs(background: BackgroundService[Awaited], user_id: str, session: str) -> RunList:
    """List the background runs that were started in a session."""
    return RunList(runs=await background.list(user_id, session))


async def get_run(background: BackgroundService[Awaited], user_id: str, session: str, run: str) -> BackgroundRun:
    """Read a background run: how far it is, and its result."""
    return await background.get(user_id, session, run)


async def steer_run(
    background: BackgroundService[Awaited], given: RunMessage, user_id: str, session: str, run: str
) -> BackgroundRun:
    """Leave a message for the agent of a background run, which reads it before its next model call."""
    return await background.steer(user_id, session, run, given.message)


async def cancel_run(background: BackgroundService[Awaited], user_id: str, session: str, run: str) -> BackgroundRun:
    """Have a background run cancelled, and those that it has started. It may run on for a moment."""
    return await background.cancel(user_id, session, run)


def _table(found: RunList, _: None) -> Table:
    columns = ("run", "agent", "status", "started", "ended", "result")
    return table(found.runs, columns, _cells)


def _cells(of: BackgroundRun) -> list[str]:
    said = " ".join((of.result or of.error).split())
    shown = said if len(said) <= MOST_SHOWN else f"{said[:MOST_SHOWN]}…"
    return [of.id, of.agent, of.status, local_time(of.started_s), local_time(of.ended_s) if of.ended_s else "-", shown]


_RUNS = "/v1/apps/{app}/sessions/{session}/background"
_WHOSE = "Whose session it is; needed where several users have one of this id."

OPERATIONS = [
    AppOperation(
        f"GET {_RUNS}",
        list_runs,
        for_admins=False,
        command=Command(name="background list", show=_table, user_help=_WHOSE, watched=True),
    ),
    AppOperation(f"GET {_RUNS}/{{run}}", get_run, for_admins=False),
    AppOperation(
        f"POST {_RUNS}/{{run}}/messages", steer_run, for_admins=False, command=Command(name="background steer", user_help=_WHOSE)
    ),
    AppOperation(
        f"DELETE {_RUNS}/{{run}}", cancel_run, for_admins=False, command=Command(name="background cancel", user_help=_WHOSE)
    ),
]
"""What may be done with background runs."""
