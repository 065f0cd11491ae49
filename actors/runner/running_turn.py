"""What the Runner keeps of a turn that it runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable

from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.topology import Topology
from actors.rules.prompt.branches import is_below_branch

UNLIMITED = 2**31


class Run:
    """One run of one agent by one actor.

    Attributes:
        asker: the run that asked for it; None: the Runner itself.
        handed_over: the place of the transfer by which the agent got the floor; None when it began as the first.
        number: names it in everything that it writes; 0 until it has begun.
        link: the way to its actor, once that lives.
    """

    def __init__(self, agent: str, branch: str | None, asker: Run | None, handed_over: int | None) -> None:
        self.agent = agent
        self.branch = branch
        self.asker = asker
        self.handed_over = handed_over
        self.number = 0
        self.link: Link | None = None

    def is_below(self, other: Run) -> bool:
        """True when it is the other one, or was asked for by that or by a run below it."""
        return self is other or (self.asker is not None and self.asker.is_below(other))


class RunningTurn:
    """A turn that runs, with all that runs in it.

    Attributes:
        is_fresh: the user's event is all that is new in the log since the turn was opened.
        so_far: what the log tells of a turn that goes on, as last heard; None for one that began here and has lost nothing.
        flow: under which the definition of the flow is found that it carries out; "" when it is none, or an agent's own.
        goes_on: it was paused, and its message answers.
        is_resumed: it was open already, and whoever ran it is gone.
        callers: who asked the questions that the message answers, and has not been reached yet.
        runs: by number.
        deaths: how often the actor of an agent was lost in the turn.
    """

    def __init__(self, ref: p.TurnRef, agent: str, opened: p.TurnBegun | p.TurnResumed, raw: bytes, config: RunConfig) -> None:
        self.ref = ref
        self.agent = agent
        self.user_event = p.StoredEvent(opened.seq, raw)
        self.event_id = ""
        self.config = config
        self.generation = opened.generation
        self.state = opened.state if isinstance(opened, p.TurnBegun) else b""
        self.state_seq = 0
        self.is_resumed = isinstance(opened, p.TurnResumed)
        self.is_fresh = not self.is_resumed
        self.so_far = opened.progress
        self.llm_calls = 0
        self.transfers = 0
        self.content = Content()
        self.goes_on = False
        self.flow = ""
        self.callers: list[str] = []
        self.runs: dict[int, Run] = {}
        self.deaths: Counter[str] = Counter()
        self.is_cancelled = False
        self.task: asyncio.Task[None] | None = None
        self._numbers = 0
        self._nested: dict[asyncio.Task[p.AnyOutcome], tuple[str | None, Run]] = {}

    @property
    def first_seq(self) -> int:
        """The place of the user's event that began it."""
        return self.so_far.first_seq if self.so_far is not None else self.user_event.seq

    def begin(self, run: Run) -> None:
        """A run begins."""
        self._numbers += 1
        run.number = self._numbers
        self.runs[run.number] = run

    def by(self, run: Run) -> p.TurnRef:
        """The turn, as the run names it."""
        return p.TurnRef(self.ref.key, self.ref.invocation_id, self.ref.epoch, run.number)

    def on_branch(self, branch: str) -> list[Run]:
        """The runs on a branch or below it."""
        return [run for run in self.runs.values() if is_below_branch(run.branch, branch)]

    def below(self, run: Run) -> list[Run]:
        """A run, and all that it has asked for."""
        return [each for each in self.runs.values() if each.is_below(run)]

    def end(self, runs: Iterable[Run]) -> None:
        """Runs have ended, or are given up."""
        for run in runs:
            self.runs.pop(run.number, None)

    def asks(self, task: asyncio.Task[p.AnyOutcome], branch: str | None, asker: Run) -> None:
        """A run waits for one below it, which is on that branch."""
        self._nested[task] = (branch, asker)

    def answered(self, task: asyncio.Task[p.AnyOutcome]) -> None:
        """It waits no more."""
        del self._nested[task]

    def stop_waiting(self, *, on_branch: str | None = None, below: Run | None = None) -> None:
        """Let nobody wait any more for runs on a branch, for those that a run has asked for, or with neither for any."""
        for task, (branch, asker) in self._nested.items():
            if (on_branch is None or is_below_branch(branch, on_branch)) and (below is None or asker.is_below(below)):
                task.cancel()

    def heard(self, so_far: p.TurnProgress, topology: Topology) -> None:
        """Take over what the log tells. What lost runs have asked of models counts, although they could not tell it."""
        self.so_far = so_far
        asked = sum(number for agent, number in so_far.said.items() if (node := topology.find(agent)) is not None and node.is_llm)
        self.llm_calls = max(self.llm_calls, asked)

    def llm_calls_left(self) -> int:
        """Model calls that may still be made."""
        limit = self.config.max_llm_calls
        return UNLIMITED if limit <= 0 else limit - self.llm_calls


def numbers(runs: Collection[Run]) -> tuple[int, ...]:
    """The numbers of runs."""
    return tuple(run.number for run in runs)
