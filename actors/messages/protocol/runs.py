"""Runs of agents inside a turn: Runner to agent, and agent to Runner."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.messages.flow import Work
from actors.messages.protocol.base import Message, StoredEvent, TurnRef


# ---------------------------------------------------------------------------------------------------- Runner -> agents
class Invoke(Message, frozen=True, kw_only=True):
    """Run an agent in a turn.

    Attributes:
        branch: the parallel branch it runs on.
        user_event: the user's event of this turn.
        fresh: that event is all that is new behind place `user_event.seq - 1`; `state` is current then.
        state_seq: the newest change of state that the Runner has heard of in this turn, by the place of its event.
        llm_calls: model calls that this run may make by itself; None: it has to ask the Runner for each.
        llm_limit: RunConfig.max_llm_calls, for the message of the error.
        closes: the agent selected for the turn, when the end of this run is the end of the turn; then the run's last event may
            carry that end. "" when somebody waits for the run.
        resume_at: see Context. `progress`: what the agent noted last, when it goes on, and `noted_seq` its place.
        resume: the run was begun before, behind place `since`, and was lost: it goes on from what the log has of it.
        work: the run is this round of a flow.
    """

    turn: TurnRef
    agent: str
    closes: str = ""
    branch: str | None = None
    user_event: StoredEvent
    fresh: bool = False
    generation: str = ""
    state: bytes = b""
    state_seq: int = 0
    streaming: bool = False
    llm_calls: int | None = None
    llm_limit: int = 0
    resume_at: tuple[str, ...] = ()
    progress: dict[str, Any] = msgspec.field(default_factory=dict)
    noted_seq: int = 0
    resume: bool = False
    since: int = 0
    work: Work | None = None


class StopRun(Message, frozen=True, kw_only=True):
    """Stop runs of one taking-up of a turn in this actor, by their numbers."""

    turn: TurnRef
    runs: tuple[int, ...]


# ------------------------------------------------------------------------------------------------- agent -> Runner
class RunChild(Message, frozen=True, kw_only=True):
    """An agent asks for a run of one below it, or of one that it has as a tool; the reply is that run's Outcome.

    Attributes:
        user_event: what the child is asked, already stored; None: what the turn was opened with.
        resume, since: see Invoke.
        work: the round of a flow that the child, wherever it stands, is to do.
    """

    turn: TurnRef
    parent: str
    child: str
    branch: str | None = None
    user_event: StoredEvent | None = None
    resume: bool = False
    since: int = 0
    work: Work | None = None


class StopBranch(Message, frozen=True, kw_only=True):
    """Whoever began a branch wants every run on it and below stopped; without a branch, all that the run itself has asked for."""

    turn: TurnRef
    branch: str = ""


class TakeLlmCall(Message, frozen=True, kw_only=True):
    """Ask for one model call out of the turn's allowance. Refused when it is used up."""

    turn: TurnRef
    agent: str
