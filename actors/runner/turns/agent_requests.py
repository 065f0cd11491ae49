"""What running agents ask of the Runner: to run others, to stop them, and to make model calls."""

from __future__ import annotations

import asyncio

import msgspec

from actors.errors import FencedError, LlmCallsLimitExceededError, RaygroveError
from actors.errors.user_code import is_being_cancelled
from actors.messages import protocol as p
from actors.rules.routing.branches import is_below_branch
from actors.runner.dispatch.versions import TurnVersions
from actors.runner.running.running_turn import RunningTurn
from actors.runner.running.runs import Run
from actors.runner.turns.table import TurnTable


class AgentRequests:
    """Serves the runs of turns that run here. Each request raises FencedError when its turn or its run is over.

    Runs are stopped all at the same time, so a child may end before the run that asked for it is stopped. That run gets no
    reply until it is stopped itself: it would take the end of its child for an answer, and go on.
    """

    def __init__(self, table: TurnTable, versions: TurnVersions) -> None:
        self._table = table
        self._versions = versions

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool."""
        turn, parent = self._asking(message.turn)
        await _require_going_on(message.turn, parent)
        dispatch = self._versions.of(turn.version).dispatch
        run = dispatch.child_run(turn, parent, message)
        task = asyncio.create_task(dispatch.child(turn, run, message))
        try:
            with turn.runs.waiting(task, run):
                outcome = await task
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            outcome = p.Cancelled(agent=message.child)
        except RaygroveError:
            await _require_going_on(message.turn, parent)
            raise
        await _require_going_on(message.turn, parent)
        return msgspec.structs.replace(outcome, state_seq=turn.state_seq)

    async def stop_branch(self, message: p.StopBranch) -> p.Ack:
        """Stop the runs on a branch or below it; without a branch, what the asking run has asked for."""
        turn, asking = self._asking(message.turn)
        if asking.stopped is not None:
            # It is stopped together with all that it has asked for, and must not wait for itself here.
            raise _fenced(message.turn)

        def is_stopped(run: Run) -> bool:
            if message.branch:
                return is_below_branch(run.branch, message.branch)
            if message.child:
                return run.serves(asking, message.child)
            return run is not asking and run.is_below(asking)

        runs = turn.runs.which(is_stopped)
        turn.runs.stop_waiting(is_stopped)
        await self._versions.of(turn.version).invoker.stop_for_good(turn, runs)
        return p.Ack()

    async def take_llm_call(self, message: p.TakeLlmCall) -> p.Ack:
        """Count one model call. Raises LlmCallsLimitExceededError when none is left."""
        turn, asking = self._asking(message.turn)
        await _require_going_on(message.turn, asking)
        if turn.calls.left <= 0:
            raise LlmCallsLimitExceededError(message.agent, turn.config.max_llm_calls)
        turn.calls.count(1)
        return p.Ack()

    def _asking(self, ref: p.TurnRef) -> tuple[RunningTurn, Run]:
        """The turn, and the run in it that asks. Raises FencedError when one of them has ended or was abandoned."""
        turn = self._table.get((ref.key, ref.invocation_id))
        is_current = turn is not None and turn.ref == msgspec.structs.replace(ref, run=0)
        run = turn.runs.get(ref.run) if turn is not None and is_current else None
        if turn is None or run is None:
            raise _fenced(ref)
        return turn, run


async def _require_going_on(ref: p.TurnRef, run: Run) -> None:
    """Raise FencedError if a run is being stopped, as soon as it is. Code that catches the error can write nothing by then."""
    if run.stopped is not None:
        await run.stopped.wait()
        raise _fenced(ref)


def _fenced(ref: p.TurnRef) -> FencedError:
    return FencedError(ref.invocation_id, ref.epoch)
