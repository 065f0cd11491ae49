"""What the controller of a flow does (seed 003; semantics.md section 7).

Round by round: which tasks are ready, who may work on them, whose turn it is; then that agent does one round in its own actor,
and what comes of it decides what is next. Agents whose tasks are ready at the same time work side by side.

It decides nothing out of memory: its board is folded from the marks of events that are in the log, so that a controller which is
started again on the same turn reads them and goes on. What an agent has in hand then, it takes up by itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from actors.behaviours.flow.chance import seeded_draw
from actors.behaviours.lifecycle import failed_before
from actors.definitions.flows.plan import FlowPlan
from actors.definitions.tree.spec import AgentSpec
from actors.errors import FlowLimitExceededError, FlowStalledError
from actors.interfaces.context import ControllerContext
from actors.messages.content import Content
from actors.messages.event import Event, EventActions, new_event_id
from actors.messages.flow import FlowMark, TaskChange, Work
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused
from actors.rules.flow.board import Board
from actors.rules.flow.turn_order import Assignment, TurnRules, next_rounds, peers
from actors.rules.routing.resumption import is_failure

DEFINITION = "definition"
RUN = "run"
SINCE = "since"
AGENTS = "agents"
"""Keys of what it notes: under which name the flow's definition is found, which run this is, the place in the log behind which
that began, and while it waits for the user, the agents that wait."""


async def run_flow(spec: AgentSpec, context: ControllerContext) -> AnyOutcome:
    """One run of a flow, or the rest of one that was interrupted or paused."""
    if context.done and is_failure(context.done[-1]):
        return failed_before(context.done[-1])
    if context.is_resumed and context.noted_seq and not context.progress:
        # Its last note is in the log: it was over, and only nobody had heard of it.
        return Finished()
    definition = str(context.progress.get(DEFINITION) or spec.name)
    return await _FlowRun(spec, context, definition, await context.plan(definition)).run()


class _FlowRun:
    def __init__(self, spec: AgentSpec, context: ControllerContext, definition: str, plan: FlowPlan) -> None:
        self._spec = spec
        self._context = context
        self._plan = plan
        self._board = Board()
        self._run = str(context.progress.get(RUN) or new_event_id())
        since = int(context.progress.get(SINCE, context.opened_seq))
        self._progress: dict[str, Any] = {DEFINITION: definition, RUN: self._run, SINCE: since}
        self._rules: TurnRules = msgspec.structs.replace(plan.rules, seed=self._run)
        self._lanes: dict[asyncio.Task[AnyOutcome], Assignment] = {}
        self._waiting: dict[str, tuple[str, ...]] = {}
        self._started = 0

    async def run(self) -> AnyOutcome:
        """The run from where it is to its end, or to where it waits for the user."""
        await self._begin()
        try:
            stopped = await self._rounds()
        finally:
            for lane in self._lanes:
                lane.cancel()
        if stopped is not None:
            await self._context.stop_rounds()
            return stopped
        left = self._board.incomplete()
        if not left:
            return await self._finish()
        if self._waiting:
            await self._context.record(self._event(FlowMark(run=self._run), {**self._progress, AGENTS: list(self._waiting)}))
            return Paused(call_ids=tuple(call_id for call_ids in self._waiting.values() for call_id in call_ids))
        limit = self._limit_reached()
        if limit is not None:
            raise FlowLimitExceededError(self._plan.name, *limit, ", ".join(left))
        raise FlowStalledError(self._plan.name, ", ".join(left))

    async def _begin(self) -> None:
        """Tell the log of the tasks; or read there how far they are, and tell that those who follow this turn only now."""
        if RUN in self._context.progress:
            for author, mark in await self._context.marks(self._run, self._progress[SINCE]):
                self._board.add(author, mark)
        self._started = self._board.rounds
        if self._board.nodes:
            nodes = tuple(self._board.nodes.values())
            mark = FlowMark(run=self._run, goal=self._board.goal(), created=nodes, changes=self._so_far())
        else:
            mark = FlowMark(run=self._run, goal=self._plan.goal, created=self._plan.nodes)
            self._board.add(self._spec.name, mark)
        await self._context.record(self._event(mark, self._progress))

    def _so_far(self) -> dict[str, TaskChange]:
        board = self._board
        return {
            task: TaskChange(status=status, result=board.results.get(task), reason=board.reasons.get(task, ""))
            for task, status in board.status.items()
            if status != "pending"
        }

    def _event(self, mark: FlowMark, progress: dict[str, Any] | None = None) -> Event:
        return Event(flow=mark, actions=EventActions(agent_state=progress))

    # ------------------------------------------------------------------------------------------------------- rounds
    async def _rounds(self) -> AnyOutcome | None:
        """Rounds, until none is under way and none can begin. Returns what ended them, if they did not come to that."""
        while True:
            await self._deal()
            if not self._lanes:
                return None
            done, _ = await asyncio.wait(self._lanes, return_when=asyncio.FIRST_COMPLETED)
            for lane in done:
                agent, outcome = self._lanes.pop(lane).agent, lane.result()
                if outcome.mark is not None:
                    self._board.add(agent, outcome.mark)
                if isinstance(outcome, Paused):
                    if agent in self._board.turns:
                        self._waiting[agent] = outcome.call_ids
                elif not isinstance(outcome, Finished):
                    return outcome

    async def _deal(self) -> None:
        """Have rounds begin, and tell the log what has changed by what is known now."""
        board = self._board
        changes: dict[str, TaskChange] = {}
        while settled := {**board.out_of_calls(), **board.skipped_by_failures()}:
            board.add(self._spec.name, FlowMark(run=self._run, changes=settled))
            changes.update(settled)
        if changes:
            # Before any round begins: whoever works now is told what became of the tasks before.
            await self._context.record(self._event(FlowMark(run=self._run, changes=changes)))
        turns: dict[str, tuple[str, ...]] = {}
        for each in next_rounds(self._rules, board, seeded_draw, list(self._lanes.values()), self._waiting.keys()):
            if self._limit_reached() is not None:
                break
            self._start(each)
            if each.begins or board.turns.get(each.agent) != each.tasks:
                turns[each.agent] = each.tasks
        mark = FlowMark(run=self._run, ready=board.newly_ready(), turns=turns)
        if mark.ready or mark.turns:
            board.add(self._spec.name, mark)
            # The rounds are on their way by now: this note costs them no time.
            await self._context.record(self._event(mark))

    def _start(self, assigned: Assignment) -> None:
        self._started += 1
        work = Work(
            definition=self._progress[DEFINITION],
            run=self._run,
            round=self._started,
            tasks=assigned.tasks,
            peers=peers(self._board, assigned.agent, assigned.tasks),
            begins=assigned.begins,
        )
        self._lanes[asyncio.create_task(self._context.work_round(assigned.agent, work))] = assigned

    def _limit_reached(self) -> tuple[str, int] | None:
        """The limit that keeps another round from beginning: field and value."""
        plan = self._plan
        if 0 < plan.max_rounds <= self._started:
            return "max_rounds", plan.max_rounds
        if 0 < plan.max_llm_calls <= self._board.llm_calls + len(self._lanes):
            return "max_llm_calls", plan.max_llm_calls
        return None

    # ------------------------------------------------------------------------------------------------------- the end
    async def _finish(self) -> AnyOutcome:
        """Tell the results of the tasks that no other needs: they are what the flow was for."""
        whole = Board()
        for author, mark in await self._context.marks(self._run, self._progress[SINCE]):
            whole.add(author, mark)
        told = _told(whole)
        event = self._event(FlowMark(run=self._run), {})
        if told:
            event = msgspec.structs.replace(event, content=Content.of_text(told, role="model"))
        is_last = self._context.is_turn and not self._spec.hooks("after_agent_callback")
        await self._context.emit(event, is_last=is_last)
        return Finished()


def _told(board: Board) -> str:
    """What came of the tasks that no other needs; of a single one, its result alone."""
    needed = {task for other in board.required() for task in board.needs(other)}
    last = [task for task in board.required() if task not in needed]
    if len(last) == 1 and board.status[last[0]] == "successful":
        return _text(board.results.get(last[0]))
    lines = []
    for task in last:
        told = _text(board.results.get(task)) or board.reasons.get(task, "")
        how = "" if board.status[task] == "successful" else f" {board.status[task]}"
        lines.append(f"{task}{how}: {told}" if told else f"{task}: {board.status[task]}")
    return "\n".join(lines)


def _text(result: Any) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
