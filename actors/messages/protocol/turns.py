"""Opening, resuming and ending turns: driver to Runner, and Runner to Session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.protocol.base import Message, TurnRef
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import Topology


# --------------------------------------------------------------------------------------------------- driver -> Runner
class StartTurn(Message, frozen=True, kw_only=True):
    """Run a turn. `subscriber` is told of its events.

    Attributes:
        repeatable: a turn of this id may be there already, and is joined then: the caller gave the id, or asks again.
        flow: under which the definition of a flow is found that the turn is to carry out; "": an agent is selected for it.
        event_id: that of the user's event; who asks again asks with the same. "" leaves it to the Runner.
    """

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    event_id: str = ""
    content: Content
    config: RunConfig = RunConfig()
    state_delta: dict[str, Any] = msgspec.field(default_factory=dict)
    auto_create: bool = False
    subscriber: str = ""
    flow: str = ""


class TurnStarted(Message, frozen=True, kw_only=True):
    """The turn is open, or was already: then `attached`, and its events come from the first.

    Attributes:
        seq: the place of the user's event, if it is the one that was asked with.
    """

    invocation_id: str
    agent: str
    attached: bool = False
    seq: int = 0


class RecoverTurns(Message, frozen=True, kw_only=True):
    """The Runner's process was lost and started again: take up the turns that were open. It says so to itself."""


class RecoverTurn(Message, frozen=True, kw_only=True):
    """See that a turn runs that is open in the log, if the Runner does not run it already."""

    key: SessionKey
    invocation_id: str


class CancelTurn(Message, frozen=True, kw_only=True):
    """Stop a turn, wherever it is: the Runner stops one that runs, the Session actor one that waits in line.

    One that has ended is left as it is.
    """

    key: SessionKey
    invocation_id: str


# -------------------------------------------------------------------------------------------------- Runner -> Session
class GetTopology(Message, frozen=True, kw_only=True):
    """Ask for the parent map."""


class TopologyReply(Message, frozen=True, kw_only=True):
    """The parent map."""

    topology: Topology


class FindTurn(Message, frozen=True, kw_only=True):
    """Ask who could take a message, before anything is stored.

    Attributes:
        call_ids: those of its function responses.
        invocation_id: a turn that may be there already; "" does not ask for any.
    """

    key: SessionKey
    call_ids: tuple[str, ...] = ()
    invocation_id: str = ""
    auto_create: bool = False


class TurnFound(Message, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        authors: of the session's events, by recency, as far as they decide who is selected.
        caller, invocation_id: who made the first of the calls, in which invocation; "" without calls.
        is_there: the turn that was asked for runs, waits in line or has ended.
        agent: who was selected for it, as far as it is known.
    """

    authors: tuple[str, ...]
    caller: str = ""
    invocation_id: str = ""
    is_there: bool = False
    agent: str = ""


class OpenTurn(Message, frozen=True, kw_only=True):
    """Begin a turn, or with `answers` continue a paused one. The reply is one of OpenTurnReply.

    Attributes:
        event: the user's event, encoded.
        answers: ids of the calls that it answers.
        repeatable: see StartTurn.
        runner: who will run the turn.
        interrupting: the running turn that this Runner is about to cancel for it; it is the next to run then.
    """

    key: SessionKey
    invocation_id: str
    repeatable: bool = False
    event: bytes
    answers: tuple[str, ...] = ()
    state_delta: dict[str, Any] = msgspec.field(default_factory=dict)
    auto_create: bool = False
    config: RunConfig = RunConfig()
    subscriber: str = ""
    runner: str = ""
    interrupting: str = ""


class TransferRecord(msgspec.Struct, frozen=True, array_like=True):
    """A transfer in the log: at place `seq`, on a branch, from `author` to the agent `to`."""

    seq: int
    branch: str | None
    author: str
    to: str


class TurnProgress(Message, frozen=True, kw_only=True):
    """What the log tells of a turn that goes on, after a pause or after a loss.

    Attributes:
        first_seq: the user's event that began it. `opened_seq`: the one that opened it last, later after a pause.
        head_seq: its newest event.
        callers: who asked the questions that the last user's event answers, and that were still open.
        progress: what supervisors noted last, by agent, each with its place.
        handovers: its transfers, in order.
        said: how many events with content each agent has made, calls and answers of the model but no results of tools.
    """

    first_seq: int = 0
    opened_seq: int = 0
    head_seq: int = 0
    callers: tuple[str, ...] = ()
    progress: dict[str, tuple[int, dict[str, Any]]] = msgspec.field(default_factory=dict)
    handovers: tuple[TransferRecord, ...] = ()
    said: dict[str, int] = msgspec.field(default_factory=dict)


class TurnBegun(Message, frozen=True, kw_only=True):
    """The user's event is stored, and the turn is to be run.

    Attributes:
        epoch: stands in everything that is written for the turn.
        seq: the position of the user's event.
        generation: names the log; a rewind changes it, and what was compiled from the log before is void.
        authors: the log's agents, the most recent first, as far as they decide who is selected.
        state: the session's state, all scopes, encoded.
        progress: of a turn that continues after a pause; None for a new one.
    """

    epoch: int
    seq: int
    generation: str
    authors: tuple[str, ...] = ()
    state: bytes = b""
    progress: TurnProgress | None = None


class TurnJoined(Message, frozen=True, kw_only=True):
    """The turn was there already; `subscriber` follows it.

    Attributes:
        seq: the position of the user's event, if it is the one that was asked with; else 0.
        agent: the agent that was selected for the turn, once it has ended; "" before.
        is_lost: the turn is open, but this Runner is not known to run it: it has to be resumed.
    """

    seq: int = 0
    agent: str = ""
    is_lost: bool = False


class InterruptFirst(Message, frozen=True, kw_only=True):
    """Another turn is open, which the new one interrupts. Cancel it, and meanwhile ask again with it as `interrupting`."""

    invocation_id: str


class ResumeFirst(Message, frozen=True, kw_only=True):
    """Another turn is open that this Runner is not known to run. Resume it, then ask again."""

    invocation_id: str


class ResumeTurn(Message, frozen=True, kw_only=True):
    """Give an open turn to a Runner, since the Runner that ran it was lost.

    The reply is one of ResumeTurnReply.

    Attributes:
        epoch: the turn's, of a Runner that runs it all the time and only tells a restarted Session actor so; else 0.
    """

    key: SessionKey
    invocation_id: str
    runner: str
    epoch: int = 0


class TurnResumed(Message, frozen=True, kw_only=True):
    """The turn is open and belongs to the Runner that asked; older epochs write nothing more.

    Attributes:
        epoch: stands in everything that is written for the turn.
        seq: the position of the user's event that opened the turn last. `event`: that event, encoded.
        config: the options with which the turn was opened.
        caller: the agent that made the first call which the user's event answers; "" when it answers none.
        generation: names the log, as in TurnBegun.
        authors: the log's agents before the event, the most recent first, as far as they decide who is selected.
        progress: how far the turn is.
    """

    epoch: int
    seq: int
    event: bytes
    config: RunConfig = RunConfig()
    caller: str = ""
    generation: str
    authors: tuple[str, ...] = ()
    progress: TurnProgress


class TurnKept(Message, frozen=True, kw_only=True):
    """The Runner that asked runs the turn with its newest epoch, and goes on with it."""


class NothingToResume(Message, frozen=True, kw_only=True):
    """The turn has ended, or is about to, or is not known."""


OpenTurnReply = TurnBegun | TurnResumed | TurnJoined | InterruptFirst | ResumeFirst
"""TurnResumed when the turn had begun with this very event, and only the reply was lost."""

ResumeTurnReply = TurnResumed | TurnKept | NothingToResume


class AbandonRuns(Message, frozen=True, kw_only=True):
    """Runs of a turn were lost: they may write no more. The reply is TurnProgress."""

    turn: TurnRef
    lost: tuple[int, ...]


class ListOpenTurns(Message, frozen=True, kw_only=True):
    """A Runner begins anew: what its predecessor had in line is given up, and it is told which turns of the app are open.

    Attributes:
        share: the sessions whose turns it runs.
    """

    app: str
    runner: str
    share: Shard = ONLY_SHARD


class OpenTurnsReply(Message, frozen=True, kw_only=True):
    """Turns that are open and not known to be run by the Runner that asks."""

    turns: Sequence[tuple[SessionKey, str]] = ()


class CloseTurn(Message, frozen=True, kw_only=True):
    """End a turn: its record is written, its subscribers are told, the next in line may begin.

    Attributes:
        agent: the agent that was selected for it.
    """

    turn: TurnRef
    agent: str
    outcome: AnyOutcome
