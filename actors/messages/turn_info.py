"""Turns and background runs as data: where each is, and what it waits for."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.errors.hints import CheckedStruct
from actors.messages.shown import Shown

TurnStateName = Literal["waiting", "running", "paused", "finished", "failed", "cancelled"]
"""Where a turn is: in line for its session, running, waiting for function responses, or how it has ended."""


class LostProcess(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """A process that was lost while it carried out a part of a turn.

    Attributes:
        agent: the agent that ran in it; "" for the turn's Runner, with which its agents go, or the whole deployment.
        lost_s: when the turn went on without it, in seconds since the epoch.
        reason: what is known of why, shortened.
    """

    agent: str = ""
    lost_s: float = 0.0
    reason: str = ""


class TurnInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """A turn as of one moment.

    Attributes:
        user_id, session_id, invocation_id: name the turn.
        state: waiting (in line), running, paused, finished, failed or cancelled.
        agent: of a running turn the agent that spoke last, "" before the first event; of a failed one the agent that failed, of
            a paused one the agent that it has come to; else the agent that was selected.
        first_seq: position of the user's message that began it; 0 while it waits in line.
        last_seq: position of its newest event.
        epoch: how often a Runner began it: 1, and one more after each pause and each loss.
        begun_s: when it began, in seconds since the epoch of time; 0 while it waits in line.
        ended_s: when it ended, or was paused; 0 before.
        error: of a failed turn, the class name of the error and its text; of one that took too long, its timeout.
        lost: processes that were lost in it, in order, also before a pause; of very many the newest.
        version: of the tree, by which it runs or ran: see Runtime.update. "" while it waits in line, and where it is not known.
        tokens: that its models have used.
        failed_tools: how many calls of tools have failed in it; none of a turn of an earlier release.
        version_seq: up to this position it ran by another version, and went on by this one, since its deployment had that one no
            more, or an earlier release has begun it; 0: it ran by one version.
    """

    user_id: str
    session_id: str
    invocation_id: str
    state: TurnStateName
    agent: str = ""
    first_seq: int = 0
    last_seq: int = 0
    epoch: int = 0
    begun_s: float = 0.0
    ended_s: float = 0.0
    error: str = ""
    lost: tuple[LostProcess, ...] = ()
    version: str = ""
    version_seq: int = 0
    tokens: int = 0
    failed_tools: int = 0


class PassedOver(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """An agent that spoke more recently than the one that was selected, and that does not get messages.

    Attributes:
        agent: the agent.
        because: it is no longer in the tree ("unknown"); it, or an agent above it, is no LLM agent ("kind") or hands back to no
            parent ("disallowed"), or works for calls ("delegate"); or it is a tool of others ("beside").
        by: that agent above it, or it itself; "" for one that is unknown.
    """

    agent: str
    because: Literal["unknown", "kind", "disallowed", "delegate", "beside"]
    by: str = ""


RunStatus = Literal["running", "waiting", "done", "failed", "cancelled"]

OVER: frozenset[RunStatus] = frozenset({"done", "failed", "cancelled"})


class BackgroundRun(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A background run as of one moment.

    Attributes:
        id: names it in its conversation.
        agent: the agent that runs.
        started_by: the agent that has started it.
        session_id: the session in which it was started; `run_session_id` is its own, which has its log.
        status: "running"; "waiting" for an answer of the user; "done", "failed" or "cancelled".
        started_s, ended_s: seconds since the epoch; 0: it has not ended.
        result: what the agent has said last.
        error: why it failed.
    """

    id: str
    agent: str
    started_by: str = ""
    session_id: str
    run_session_id: str
    status: RunStatus
    started_s: float = 0.0
    ended_s: float = 0.0
    result: str = ""
    error: str = ""

    @property
    def is_over(self) -> bool:
        """It has ended for good."""
        return self.status in OVER
