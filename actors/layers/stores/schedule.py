"""Schedules: messages that a user's session gets at times, as programs see them and as they are stored."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from actors.messages import codec
from actors.messages.codec import encode
from actors.messages.config import DEFAULT_BACKGROUND, DEFAULT_RUN_CONFIG, Background, RunConfig
from actors.messages.content import Content
from actors.messages.json_types import StateDelta
from actors.messages.protocol.turns import MESSAGE, NEW, SENT
from actors.messages.session import SessionKey, conversation_of
from actors.messages.shown import Shown
from actors.messages.turn_info import BackgroundRun

MissedPolicy = Literal["once", "all", "skip"]
"""What becomes of due times at which the deployment was down."""

MISSED: tuple[MissedPolicy, ...] = ("once", "all", "skip")

ScheduleStateName = Literal["active", "paused", "failed"]
"""Where a schedule is: it has a next due time, or was paused, or has none any more and its last turn could not begin."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule is due: by exactly one of `cron`, `every_s` and `at_s`.

    Attributes:
        cron: five fields: minute, hour, day of the month, month, day of the week.
        every_s: seconds between two due times, counted from `start_s`.
        at_s: the only due time, in seconds since the epoch.
        timezone: by whose clocks `cron` goes, as the IANA database names it.
        start_s: when the schedule was created, in seconds since the epoch.
    """

    cron: str = ""
    every_s: int = 0
    at_s: int = 0
    timezone: str = "UTC"
    start_s: int = 0


class WaitingMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that waits for an agent of a turn to read it: it is kept as a schedule that is due at once.

    Attributes:
        event: the user's event, encoded; b"": no turn may read it, so it begins one of its own.
        state_delta, fingerprint, traceparent: see StartTurn.
        cancels: it is none: the turn of this id is cancelled.
        creates: the session of its turn is created if there is none.
    """

    event: bytes = b""
    cancels: str = ""
    creates: bool = False
    state_delta: StateDelta = {}
    fingerprint: str = ""
    traceparent: str = ""


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of a background run, as a schedule that is never due.

    Attributes:
        run: the run, as programs see it.
        options: how it runs.
        answers_to: the agent that gets its end where that begins a turn; "": the one that is selected.
        told: the name and the id of the message that tells of its end.
    """

    run: BackgroundRun
    options: Background = DEFAULT_BACKGROUND
    answers_to: str = ""
    told: tuple[str, str] = ("", "")
    is_cancelled: bool = False


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a schedule does not change.

    Attributes:
        timing: when it is due.
        missed: see MissedPolicy.
        content: the message of each turn; empty where `message` has an event.
        config: the options of each turn.
        agent: the agent that has made it with a tool; "": a program has.
        message: the message that it is; None: it is a schedule of a program or an agent.
        run: the background run that it is.
    """

    timing: Timing
    missed: MissedPolicy = "once"
    content: Content
    config: RunConfig = DEFAULT_RUN_CONFIG
    agent: str = ""
    message: WaitingMessage | None = None
    run: StoredRun | None = None


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored.

    Attributes:
        key: the session that gets the messages.
        name: its name among those of the user.
        id: tells it from others that had this name before.
        due_s: the due time for which no turn has begun yet, in whole seconds since the epoch; None: there is none.
        paused: it was paused, and so has none.
        last_s: the due time of its newest turn; 0: it has made none.
        turns: how many turns it has made.
        error: why the last due time made no turn; "" when it made one.
        raw: the encoded SchedulePlan.
    """

    key: SessionKey
    name: str
    id: str
    due_s: int | None
    paused: bool = False
    last_s: int = 0
    turns: int = 0
    error: str = ""
    raw: bytes

    @property
    def plan(self) -> SchedulePlan:
        """The part of it that does not change."""
        return _plans.decode(self.raw)

    @property
    def due_place(self) -> DuePlace:
        """Where it stands among those that are due."""
        return DuePlace(self.due_s or 0, self.key.user, self.name)


_plans = codec.decoder(SchedulePlan)


def waiting_row(
    key: SessionKey,
    name: str,
    invocation_id: str,
    message: WaitingMessage,
    config: RunConfig,
    *,
    at_s: int,
    content: Content | None = None,
    is_due: bool = True,
) -> ScheduleRow:
    """A message as it is stored while it waits.

    Args:
        name: see message_name.
        invocation_id: the turn that it begins if no agent reads it.
        at_s: when it begins that turn, in seconds since the epoch.
        content: what the turn begins with; None: the event of the message has it.
        is_due: it may begin a turn.
    """
    timing = Timing(at_s=at_s, start_s=at_s)
    plan = SchedulePlan(timing=timing, missed="all", content=content or Content(), config=config, message=message)
    return ScheduleRow(key=key, name=name, id=invocation_id, due_s=at_s if is_due else None, raw=encode(plan))


def message_prefix(key: SessionKey, to: str | None = "") -> str:
    """Begins the names of the messages of a session: ids may be as long as the names of schedules.

    Args:
        to: of messages to this agent; "": of those of the user; None: of all, and of the session's background runs.
    """
    session = f"{MESSAGE}{_digest(key.session)}"
    return session if to is None else f"{session}{SENT}{_digest(to)}/" if to else f"{session}/"


def message_name(key: SessionKey, sent_s: float, invocation_id: str, *, to: str = "", is_new: bool = False) -> str:
    """The name of a message: those of a session to an agent stand in the order in which they were sent.

    Args:
        to: the agent that gets it; "": any reads it.
        invocation_id: the turn that it begins.
        is_new: see ScheduledTime.is_new.
    """
    return f"{message_prefix(key, to)}{int(sent_s * 1e6):016x}/{_digest(invocation_id)}{NEW if is_new else ''}"


def run_name(session: str) -> str:
    """The name of a background run, by the id of its session: those of a conversation stand together."""
    conversation = conversation_of(session)
    return f"{MESSAGE}{_digest(conversation)}{session.removeprefix(conversation)}"


def runs_prefix(session: str) -> str:
    """Begins the names of the background runs that were started in a session, and of those that they have started."""
    return f"{run_name(session)}~"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=12).hexdigest()


class DuePlace(NamedTuple):
    """Where a schedule stands among others of its app, the one that is due first coming first."""

    due_s: int
    user: str
    name: str


class Schedule(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A schedule as of one moment.

    Attributes:
        user_id, name: name it.
        session_id: the session that gets the messages.
        message: what the session gets at each due time.
        cron, every_s, at_s, timezone: see `rt.schedules.create`; exactly one of the first three is set.
        missed: what becomes of due times at which the deployment was down: once, all or skip.
        state: active, paused, or failed: its last turn could not begin, and there is no next due time.
        next_s: the next due time, in seconds since the epoch; None: there is none.
        last_s: the due time of its newest turn; None: it has made none.
        turns: how many turns it has made.
        error: why the last due time made no turn; "" when it made one.
        agent: the agent that has made it with a tool; "": a program has.
        run_config: the options of each turn; None where they are not told.
    """

    user_id: str
    name: str
    session_id: str
    message: Content
    cron: str = ""
    every_s: int = 0
    at_s: int = 0
    timezone: str = "UTC"
    missed: MissedPolicy = "once"
    state: ScheduleStateName
    next_s: int | None = None
    last_s: int | None = None
    turns: int = 0
    error: str = ""
    agent: str = ""
    run_config: RunConfig | None = None


def shown_schedule(row: ScheduleRow) -> Schedule:
    """A stored schedule as programs see it."""
    plan, timing = row.plan, row.plan.timing
    state: ScheduleStateName = "paused" if row.paused else "active" if row.due_s is not None else "failed"
    return Schedule(
        user_id=row.key.user,
        name=row.name,
        session_id=row.key.session,
        message=plan.content,
        cron=timing.cron,
        every_s=timing.every_s,
        at_s=timing.at_s,
        timezone=timing.timezone,
        missed=plan.missed,
        state=state,
        next_s=row.due_s,
        last_s=row.last_s or None,
        turns=row.turns,
        error=row.error,
        agent=plan.agent,
        run_config=plan.config,
    )
