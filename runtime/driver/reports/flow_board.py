"""The boards of the flows of a turn, folded from its events, as programs read them with the turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from actors.layers.flows.rules.board import Board
from actors.messages.event import Event
from actors.messages.flow import TaskStatus
from actors.messages.json_types import JsonValue
from actors.messages.shown import Shown


class BoardTask(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A task of a flow, and how far it is.

    Attributes:
        name, objective: the task, and what it is to achieve.
        status: pending, running, successful, failed or skipped.
        is_ready: agents may work on it: it is not complete, and all that it needs is.
        needs: the tasks that have to be complete before it begins: its dependencies and its parts.
        parent: the task that it is a part of; "" for none.
        agents: the agents that may work on it.
        works: the agents that work on it now.
        result: of a successful task, as plain data.
        reason: why it failed or was skipped; "" otherwise.
        llm_calls: model calls for it since its agent last finished any task; max_llm_calls: those after which it fails.
    """

    name: str
    objective: str = ""
    status: TaskStatus
    is_ready: bool = False
    needs: Sequence[str] = ()
    parent: str = ""
    agents: Sequence[str] = ()
    works: Sequence[str] = ()
    result: JsonValue = None
    reason: str = ""
    llm_calls: int = 0
    max_llm_calls: int | None = None


class FlowBoard(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run of a flow.

    Attributes:
        run: the run; unique in the log.
        first_seq, last_seq: its first and its newest event.
        goal: the tasks that it is for.
        tasks: all of its tasks, in the order in which they were made.
        counts: how many of them have each status.
        rounds, llm_calls: rounds and model calls so far.
        stopped: the condition that has stopped it before all tasks were done; "" for none.
    """

    run: str
    first_seq: int
    last_seq: int
    goal: Sequence[str] = ()
    tasks: Sequence[BoardTask] = ()
    counts: Mapping[TaskStatus, int] = {}
    rounds: int = 0
    llm_calls: int = 0
    stopped: str = ""


class TurnBoards:
    """The boards of all runs of flows in one turn, in the order in which they began."""

    def __init__(self) -> None:
        self._boards: dict[str, Board] = {}
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, event: Event) -> None:
        """Take in the next event of the turn."""
        if event.flow is not None:
            run = event.flow.run
            self._boards.setdefault(run, Board()).add(event.author, event.flow)
            self._places[run] = self._places.get(run, (event.seq, 0))[0], event.seq

    def boards(self, *, runs: bool) -> list[FlowBoard]:
        """The boards as they are.

        Args:
            runs: the turn runs. No agent works in one that waits or has ended, whatever its last event says.
        """
        # The message that began a flow names its definition, and has no tasks.
        return [self._board(run, board, runs=runs) for run, board in self._boards.items() if board.nodes]

    def _board(self, run: str, board: Board, *, runs: bool) -> FlowBoard:
        first_seq, last_seq = self._places[run]
        ready = set(board.ready())
        return FlowBoard(
            run=run,
            first_seq=first_seq,
            last_seq=last_seq,
            goal=board.goal(),
            tasks=[_task(board, name, is_ready=name in ready, runs=runs) for name in board.nodes],
            counts=Counter(board.status.values()),
            rounds=board.rounds,
            llm_calls=board.llm_calls,
            stopped=board.stopped,
        )


def _task(board: Board, name: str, *, is_ready: bool, runs: bool) -> BoardTask:
    node = board.nodes[name]
    return BoardTask(
        name=name,
        objective=node.objective,
        status=board.status[name],
        is_ready=is_ready,
        needs=tuple(board.needs(name)),
        parent=node.parent or "",
        agents=node.agents,
        works=[agent for agent, tasks in board.turns.items() if runs and name in tasks and not board.is_complete(name)],
        result=board.results.get(name),
        reason=board.reasons.get(name, ""),
        llm_calls=board.calls.get(name, 0),
        max_llm_calls=node.max_llm_calls,
    )
