"""The runs of one turn: which agents run now, for whom, which tasks wait for them, and the seam to their spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from actors.interfaces.transport import Link
from actors.messages.event import now_s
from actors.messages.graph import NodeTask
from actors.messages.protocol import AnyOutcome, Note, StoredEvent
from actors.rules.routing.branches import state_key, tool_root


class Run(msgspec.Struct, eq=False):
    """One run of one agent by one actor.

    Attributes:
        branch: the parallel branch it runs on.
        user_event: what the agent is asked.
        parent: the run that asked for it; None: the Runner itself.
        asked: the agent that `parent` has asked for: this one, or one that has transferred to it; "" without a parent.
        place, traceparent, node, state, state_seq: see RunChild. A run that is repeated reads the state itself.
        before: the run that has transferred to this one; None: it is the first for what was asked.
        transfer_seq: the seq of the transfer by which the agent got the floor; None: it had it from the beginning.
        notes: see RunChild.
        span_id: of its span, once that is known.
        number: names the run in everything that it writes; 0 until it has begun.
        begun_s: when it began, in seconds since the epoch; 0 until then.
        link: the link to its actor, once that lives.
        stopped: there while the run is being stopped, and set when it can write nothing more.
    """

    agent: str
    branch: str | None
    user_event: StoredEvent
    parent: Run | None
    transfer_seq: int | None = None
    notes: Sequence[Note] = ()
    asked: str = ""
    place: str = ""
    traceparent: str = ""
    before: Run | None = None
    node: NodeTask | None = None
    state: bytes = b""
    state_seq: int = 0
    span_id: str = ""
    number: int = 0
    begun_s: float = 0.0
    link: Link | None = None
    stopped: asyncio.Event | None = None

    @property
    def node_path(self) -> str:
        """The path of the run of the node that it is, or is part of; "" for any other run."""
        return self.node.path if self.node is not None else ""

    @property
    def key(self) -> str:
        """Names it in the log, whichever actor does it: see `branches.state_key`."""
        return state_key(self.agent, self.branch, self.node_path)

    @property
    def is_tool(self) -> bool:
        """True when `parent` has asked for this agent itself, as a tool or as a node of a graph."""
        if self.node is not None:
            return self.before is None and self.asked in ("", self.agent)
        return self.parent is not None and self.asked == self.agent and tool_root(self.branch) != tool_root(self.parent.branch)

    def transferred(self, to: str, seq: int) -> Run:
        """The run of the agent that this one has transferred to, with the event at `seq`."""
        return Run(
            to,
            self.branch,
            self.user_event,
            self.parent,
            seq,
            asked=self.asked,
            traceparent=self.traceparent,
            before=self,
            node=self.node,
        )

    def repeated(self) -> Run:
        """The same run by another actor."""
        return msgspec.structs.replace(self, state=b"", state_seq=0, span_id="", number=0, begun_s=0.0, link=None, stopped=None)

    @property
    def path(self) -> str:
        """Tells it from other runs of the turn, whichever actor does it: its places among what was asked for, from the top."""
        above = f"{self.parent.path}/" if self.parent is not None else ""
        return f"{above}{self.agent}:{self.place}:{self.transfer_seq or ''}"

    def is_below(self, other: Run) -> bool:
        """True when it is the other one, or was asked for by that one or by a run below it."""
        return self is other or (self.parent is not None and self.parent.is_below(other))

    def serves(self, parent: Run, asked: str) -> bool:
        """True when it is what `parent` has asked for by that name, or is below that."""
        if self.parent is parent:
            return self.asked == asked
        return self.parent is not None and self.parent.serves(parent, asked)


Concerns = Callable[[Run], bool]
"""Chooses runs of a turn."""


class Runs(msgspec.Struct, eq=False):
    """The runs of a turn that have begun and not ended, by number, and the tasks in which runs wait for others."""

    _by_number: dict[int, Run] = {}
    _last_number: int = 0
    _waiting: dict[asyncio.Task[AnyOutcome], Run] | None = None

    def begin_run(self, run: Run) -> None:
        """Number a run that begins."""
        number = self._last_number = self._last_number + 1
        run.number, run.begun_s = number, now_s()
        self._by_number[number] = run

    def begin_stopping(self, runs: Iterable[Run]) -> None:
        """From now on these runs get no reply to what they ask for, until they have ended."""
        for run in runs:
            run.stopped = run.stopped or asyncio.Event()

    def end_run(self, run: Run) -> None:
        """Drop a run that has ended or is abandoned."""
        self._by_number.pop(run.number, None)
        if run.stopped is not None:
            run.stopped.set()

    def end_runs(self, runs: Iterable[Run]) -> None:
        """Drop runs that have ended or are abandoned."""
        for run in runs:
            self.end_run(run)

    def get(self, number: int) -> Run | None:
        """The run of that number; None when it has ended or was abandoned."""
        return self._by_number.get(number)

    def are_over(self) -> bool:
        """No run is under way, and no task waits for one."""
        return not (self._by_number or self._waiting)

    def all(self) -> list[Run]:
        """Every run."""
        return list(self._by_number.values())

    def which(self, concerns: Concerns) -> list[Run]:
        """Those runs that something concerns."""
        return [run for run in self._by_number.values() if concerns(run)]

    @contextmanager
    def waiting(self, task: asyncio.Task[AnyOutcome], asked: Run) -> Iterator[None]:
        """Inside the block a run waits for the task, which carries out the run that it has asked for."""
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = {}
        waiting[task] = asked
        try:
            yield
        finally:
            del waiting[task]

    def waits(self, run: Run) -> bool:
        """True while a run waits for another that it has asked for."""
        return any(asked.parent is run for asked in (self._waiting or {}).values())

    def stop_waiting(self, concerns: Concerns) -> None:
        """Cancel the tasks that wait for runs which something concerns."""
        for task, asked in (self._waiting or {}).items():
            if concerns(asked):
                task.cancel()


class TurnSpans(Protocol):
    """The seam to the spans of one turn in this Runner, and of the runs in it: the Runner says what begins, ends and is lost."""

    def begin_run(self, run: Run) -> None:
        """A run begins, or is taken up."""
        ...

    def traceparent(self, run: Run) -> str:
        """The `traceparent` for an actor that is to carry out a run."""
        ...

    def lost(self, run: Run, error: Exception) -> None:
        """The process was lost that carried a run out."""
        ...

    def end_run(self, run: Run, outcome: AnyOutcome | None) -> None:
        """A run has ended; with None it was given up, and may be taken up again."""
        ...

    def end_turn(self, agent: str, outcome: AnyOutcome, left: AnyOutcome | None = None) -> None:
        """The turn has ended, or waits for an answer.

        Args:
            agent: the agent that was selected for it.
            left: how the runs have ended of which nothing was heard; None: they were cancelled.
        """
        ...


def numbers(runs: Collection[Run]) -> tuple[int, ...]:
    """The numbers of runs."""
    return tuple(run.number for run in runs)
