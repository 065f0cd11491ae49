"""What is done about a child whose run has failed (semantics.md section 4, "Supervision").

A supervisor lets the failure go up, runs the child again, or goes on without it. How often a child is run again is bounded in
time: what fails for a moment gets over it, and what fails always is not tried for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from actors.messages.event import Event
from actors.messages.protocol.outcomes import Failed
from actors.rules.recovery.backoff import Backoff

Strategy = Literal["escalate", "restart", "skip"]

METADATA = "supervision"
"""Where a decision stands in the custom_metadata of its event."""

TURN_LIMITS = frozenset({"LlmCallsLimitExceededError", "TransferLimitExceededError"})
"""Failures that tell of the whole turn: whoever ran next would meet the same limit, so they always go up."""


class Policy(Protocol):
    """What is to be done: see `actors.Supervision`."""

    @property
    def strategy(self) -> Strategy:
        """Let it go up, run the child again, or go on without it."""
        ...

    @property
    def max_restarts(self) -> int:
        """At most so many in `within_s`."""
        ...

    @property
    def within_s(self) -> float:
        """How far back restarts count."""
        ...

    @property
    def backoff_s(self) -> float:
        """The wait before the first restart."""
        ...

    @property
    def max_backoff_s(self) -> float:
        """The longest wait."""
        ...


class Decision(NamedTuple):
    """What is done about one failure.

    Attributes:
        told: why, in a sentence.
        attempt: which restart it is of those that count, from 1; 0 when it is none.
        starts: when the child was and will be run again, as far as it still counts, in seconds since the epoch; the last one is
            when this restart begins.
    """

    strategy: Strategy
    told: str
    attempt: int = 0
    starts: tuple[float, ...] = ()


def decide(policy: Policy, child: str, failed: Failed, starts: Sequence[float], now_s: float) -> Decision:
    """What is done about the failure of a child's run.

    Args:
        starts: the `starts` of the last decision about the child, in the same run of its supervisor.
        now_s: seconds since the epoch.
    """
    what = f"{child} failed with {failed.error_code}"
    if failed.agent and failed.agent != child:
        what = f"{child} failed, since {failed.agent} did, with {failed.error_code}"
    if policy.strategy == "escalate":
        return Decision("escalate", f"{what}: the failure goes up")
    if failed.error_code in TURN_LIMITS:
        return Decision("escalate", f"{what}: it is a limit of the whole turn, so the failure goes up")
    if policy.strategy == "skip":
        return Decision("skip", f"{what}: it goes on without {child}")
    # What lies ahead counts too, such as when the clock was set back.
    recent = tuple(start for start in starts if now_s - start <= policy.within_s)
    if len(recent) >= policy.max_restarts:
        often = f"{len(recent)} of {policy.max_restarts} restarts within {policy.within_s:g} s are used up"
        return Decision("escalate", f"{what}: {often}, so the failure goes up", starts=recent)
    attempt = len(recent) + 1
    wait_s = backoff(policy).after_attempts(attempt)
    often = f"restart {attempt} of {policy.max_restarts} within {policy.within_s:g} s"
    begins = f"in {wait_s:g} s" if wait_s else "at once"
    return Decision("restart", f"{what}: {often} begins {begins}", attempt, (*recent, now_s + wait_s))


def backoff(policy: Policy) -> Backoff:
    """The waits before restarts."""
    return Backoff(policy.backoff_s, policy.max_backoff_s)


def record(policy: Policy, child: str, failed: Failed, decision: Decision) -> dict[str, Any]:
    """The custom_metadata of the event that tells of a decision."""
    told: dict[str, Any] = {"decision": decision.strategy, "child": child, "error_code": failed.error_code}
    if decision.attempt:
        told |= {"attempt": decision.attempt, "of": policy.max_restarts}
    return {METADATA: {**told, "told": decision.told}}


def told(event: Event) -> str | None:
    """The sentence of an event that tells of a decision; None for any other event."""
    # A model may give its answers metadata of any name.
    if event.content is not None or event.actions.agent_state is None or event.custom_metadata is None:
        return None
    record = event.custom_metadata.get(METADATA)
    sentence = record.get("told") if isinstance(record, Mapping) else None
    return sentence if isinstance(sentence, str) else None
