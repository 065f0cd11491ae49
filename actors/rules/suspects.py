"""Which runs go on in a process of their own, since what they run may have ended the one before (docs/semantics.md section 2).

Rules of this file:

- A loss is charged to the code that ran when the process died: a tool whose call has no result, the code of a custom agent or of
  a graph. Its run goes on alone. Runs that waited for a model go on beside others, and at once.
- Where no such code is known, as in a callback or a model's client, a run is suspected from its second loss on.
- The Runner takes all its agents' processes with it, so the loss of a Runner suspects a run from the second time on.
- Only what happens to a run that is alone counts against it. The third loss of a process of its own is its last. The Runner may
  be lost for another reason, so of attempts that end so there may be more.
- What has ended Runners as well begins one by one, newest first: it has most likely done it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from actors.messages.protocol.turns import RunLosses

MAX_LOSSES = 3
"""Losses of a process of its own after which a run is given up."""

MAX_ATTEMPTS = 6
"""Attempts in a process of its own after which a run is given up, whatever was lost with them."""

MAX_TOGETHER = 2
"""Losses beside others after which any run is suspected."""

BEGINNING_S = 5.0
"""For so long a run that began alone keeps back others: most of what ends a process does so soon."""

MAX_BEGINNING = 4
"""Runs that begin alone at the same time: each starts a process."""

MAX_RUNNING = 32
"""Runs that go on alone at the same time."""

NEVER_LOST = RunLosses()


def is_suspect(
    run: str, losses: Mapping[str, RunLosses], under_way: Mapping[str, Sequence[str]], agents: Collection[str]
) -> bool:
    """True if a run has to go on in a process of its own.

    Args:
        run: its `branches.state_key`.
        losses, under_way: of its turn: see TurnProgress.
        agents: functions that are agents: these run elsewhere.
    """
    lost, calls = losses.get(run, NEVER_LOST), under_way.get(run, ())
    if calls and all(name in agents for name in calls):
        # It waits for them, and each is judged by itself.
        return False
    if lost.alone or max(lost.times, losses.get("", NEVER_LOST).times) >= MAX_TOGETHER:
        return True
    return bool(lost.times) and not lost.with_runner and (lost.ran_code or bool(calls))


def is_given_up(run: str, losses: Mapping[str, RunLosses]) -> bool:
    """True if a run has ended its own process too often."""
    lost = losses.get(run, NEVER_LOST)
    return lost.own >= MAX_LOSSES or lost.alone >= MAX_ATTEMPTS


class Waiting(NamedTuple):
    """A run that waits to begin alone.

    Attributes:
        begun_s: when it began alone last; 0: never.
        with_runner: its last loss was that of the Runner.
    """

    begun_s: float
    with_runner: bool


def waiting_run(run: str, losses: Mapping[str, RunLosses]) -> Waiting:
    """A run that is to begin alone."""
    lost = losses.get(run, NEVER_LOST)
    return Waiting(lost.begun_s, lost.with_runner or "" in losses)


def next_alone(waiting: Sequence[Waiting], beginning: Sequence[Waiting], running: int) -> int | None:
    """The index of the run that begins next; None: none may now.

    Args:
        beginning: those that began less than BEGINNING_S ago, and have not ended.
        running: all that go on alone.
    """
    if running >= MAX_RUNNING or len(beginning) >= MAX_BEGINNING:
        return None
    is_one_by_one = any(each.with_runner for each in beginning)
    ready = [index for index, each in enumerate(waiting) if not (each.with_runner and is_one_by_one)]
    return max(ready, key=lambda index: waiting[index].begun_s, default=None)
