"""What goes on in the turns of a Runner, for people who look at one."""

from __future__ import annotations

from actors.actor import Handlers
from actors.layers.listing.messages import GetRunningTurn, LiveRun, RunningTurnReply
from actors.runner.running.runs import Run
from actors.runner.service import RunnerParts, RunnerService


class RunningTurns(RunnerService):
    """Answers GetRunningTurn."""

    def __init__(self, parts: RunnerParts) -> None:
        self._table = parts.table

    def handlers(self) -> Handlers:
        """Its message."""
        return {GetRunningTurn: self.get_running_turn}

    async def get_running_turn(self, message: GetRunningTurn) -> RunningTurnReply:
        """Tell which runs of a turn are under way."""
        turn = self._table.get((message.key, message.invocation_id))
        if turn is None:
            return RunningTurnReply()
        runs = [_live(run) for run in turn.runs.all() if run.stopped is None]
        return RunningTurnReply(runs=runs, transfers=len(turn.transfers), llm_calls=turn.calls.used)


def _live(run: Run) -> LiveRun:
    return LiveRun(
        agent=run.agent,
        branch=run.branch or "",
        asked_by=run.parent.agent if run.parent is not None else "",
        begun_s=run.begun_s,
        has_process=run.link is not None,
    )
