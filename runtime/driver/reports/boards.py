"""The boards of the flows of a turn, folded from its events."""

from __future__ import annotations

from collections import Counter

from actors.layers.flows.rules.board import Board
from actors.messages.event import Event
from runtime.driver.reports.flow_board import BoardTask, FlowBoard


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
