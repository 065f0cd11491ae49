"""What a supervisor does about a child whose run has failed (semantics.md section 4, "Supervision").

It lets the failure go up, restarts the child, or goes on without it. Restarts are bounded within a span of time: a child survives
a short trouble, and is not restarted for ever in a lasting one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from actors.layers.workflows.definitions import Supervision
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.protocol.runs import Failed
from actors.rules.backoff import Backoff

Strategy = Literal["escalate", "restart", "skip"]

METADATA = "supervision"
"""The key of a decision in the custom_metadata of its event."""

TURN_LIMITS = frozenset({"BudgetExceededError", "LlmCallsLimitExceededError", "NoPriceError", "TransferLimitExceededError"})
"""Failures that always go up: they are limits of the whole turn, which the next run would meet as well."""


class Decision(NamedTuple):
    """What is done about one failure.

    Attributes:
        text: what is done, and why, in a sentence.
        attempt: the number of the restart among those that count, from 1; 0 if it is none.
        starts: when the restarts that count have begun or will begin, in seconds since the epoch; the last one is this restart's.
    """

    strategy: Strategy
    text: str
    attempt: int = 0
    starts: tuple[float, ...] = ()


def decide(policy: Supervision, child: str, failed: Failed, starts: Sequence[float], now_s: float) -> Decision:
    """Decide about the failure of a child's run.

    Args:
        starts: the `starts` of the last decision about the child in the same run of its supervisor.
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
    # Starts in the future count too: the clock may have been set back.
    recent = tuple(start for start in starts if now_s - start <= policy.within_s)
    if len(recent) >= policy.max_restarts:
        often = f"{len(recent)} of {policy.max_restarts} restarts within {policy.within_s:g} s are used up"
        return Decision("escalate", f"{what}: {often}, so the failure goes up", starts=recent)
    attempt = len(recent) + 1
    wait_s = backoff(policy).after_attempts(attempt)
    often = f"restart {attempt} of {policy.max_restarts} within {policy.within_s:g} s"
    begins = f"in {wait_s:g} s" if wait_s else "at once"
    return Decision("restart", f"{what}: {often} begins {begins}", attempt, (*recent, now_s + wait_s))


def backoff(policy: Supervision) -> Backoff:
    """The waits before restarts."""
    return Backoff(policy.backoff_s, policy.max_backoff_s)


def record(policy: Supervision, child: str, failed: Failed, decision: Decision) -> JsonObject:
    """The custom_metadata of the event that stores a decision."""
    facts: JsonObject = {"decision": decision.strategy, "child": child, "error_code": failed.error_code}
    if failed.error_traceback:
        facts["error_traceback"] = failed.error_traceback
    if decision.attempt:
        facts |= {"attempt": decision.attempt, "of": policy.max_restarts}
    return {METADATA: {**facts, "told": decision.text}}


def decision_text(event: Event) -> str | None:
    """The sentence of an event that stores a decision; None for any other event."""
    # A model may give its responses metadata under any key.
    if event.content is not None or event.actions.agent_state is None or event.custom_metadata is None:
        return None
    record = event.custom_metadata.get(METADATA)
    sentence = record.get("told") if isinstance(record, Mapping) else None
    return sentence if isinstance(sentence, str) else None
