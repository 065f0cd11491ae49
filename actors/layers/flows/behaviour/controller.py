"""What the controller of a flow does (semantics.md section 7).

Round by round: which tasks are ready, who may work on them, whose turn it is; then that agent does one round in its own actor,
and what comes of it decides what is next. Agents whose tasks are ready at the same time work side by side.

It decides nothing from memory: its board is folded from the marks of events that are in the log, so a controller that is started
again on the same turn reads them and goes on. Agents continue their open calls themselves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import msgspec

from actors.behaviours.model_call import Templates
from actors.definitions.spec import AgentSpec
from actors.errors import FlowLimitExceededError, FlowStalledError, TemplateError
from actors.layers.flows.definitions.flow import FlowPlan
from actors.layers.flows.rules.board import Board, last_tasks
from actors.layers.flows.rules.prompt import result_text, shortened
from actors.layers.flows.rules.turn_order import Assignment, TurnRules, TurnScheduler, peers
from actors.layers.flows.rules.until import Facts
from actors.layers.flows.runs import ControllerInvocation, plan_of
from actors.messages.content import Content
from actors.messages.event import Event, EventActions, new_event_id
from actors.messages.flow import FlowMark, TaskChange, Work
from actors.messages.json_types import Progress
from actors.messages.protocol.runs import AnyOutcome, Finished, Paused
from actors.rules.prompt import instructions

DEFINITION = "definition"
RUN = "run"
SINCE = "since"
AGENTS = "agents"
"""Keys of the controller's notes: the name of the flow's definition, the id of the run, the place in the log after which it
began, and once it has waited for the user, the agents that have waited."""


def seeded_draw(seed: str, names: Sequence[str]) -> str:
    """One of the names by chance: always the same for the same seed and names, so also after a loss."""
    return random.Random(seed).choice(names)


async def run_flow(spec: AgentSpec, context: ControllerInvocation) -> AnyOutcome:
    """One run of a flow, or the rest of one that was lost or paused."""
    if context.is_resumed and context.noted_seq and not context.progress:
        # Its last note is in the log: the run had finished, and only its outcome was lost.
        return Finished()
    definition = str(context.progress.get(DEFINITION) or spec.name)
    plan = await plan_of(context, definition)
    return await _FlowRun(spec, context, definition, plan).run()


class _FlowRun:
    """One run of a flow: its board, the rounds that are under way, and the agents that wait for the user."""

    def __init__(self, spec: AgentSpec, context: ControllerInvocation, definition: str, plan: FlowPlan) -> None:
        self._spec = spec
        self._context = context
        self._plan = plan
        self._board = Board()
        self._run = str(context.progress.get(RUN) or new_event_id())
        since = int(context.progress.get(SINCE, context.user_seq))
        self._progress: Progress = {DEFINITION: definition, RUN: self._run, SINCE: since}
        if AGENTS in context.progress:
            # If the Runner is lost, the answers to them still lead to the flow.
            self._progress[AGENTS] = context.progress[AGENTS]
        self._rules: TurnRules = msgspec.structs.replace(plan.rules, seed=self._run)
        self._rounds: dict[asyncio.Task[AnyOutcome], Assignment] = {}
        self._waiting: dict[str, tuple[str, ...]] = {}
        self._rounds_begun = 0
        self._is_held_back = False
        self._to_finish: tuple[str, ...] = ()

    async def run(self) -> AnyOutcome:
        """The run from where it is to its end, or to where it waits for the user."""
        await self._begin()
        try:
            stopped = await self._run_rounds()
        finally:
            for running in self._rounds:
                running.cancel()
        if stopped is not None:
            await self._context.stop_children()
            return stopped
        if self._is_stopped() or (self._is_held_back and not self._waiting):
            await self._skip_rest()
        left = self._board.incomplete()
        if not left:
            return await self._finish()
        if self._waiting:
            # Those that have been answered, too: if the Runner is lost now, their answer is still the turn's last message.
            waited = list(dict.fromkeys([*self._progress.get(AGENTS, ()), *self._waiting]))
            await self._context.record(self._event(FlowMark(run=self._run), {**self._progress, AGENTS: waited}))
            return Paused(call_ids=tuple(call_id for call_ids in self._waiting.values() for call_id in call_ids))
        limit = self._limit_reached()
        if limit is not None:
            raise FlowLimitExceededError(self._plan.name, *limit, ", ".join(left))
        raise FlowStalledError(self._plan.name, ", ".join(left))

    async def _begin(self) -> None:
        """Store the tasks; or read in the log how far they are, and store that for subscribers who begin here."""
        if RUN in self._context.progress:
            for author, mark in await self._context.marks(self._run, self._progress[SINCE]):
                self._board.add(author, mark)
        self._rounds_begun = self._board.rounds
        self._to_finish = tuple(self._board.turns)
        if self._board.nodes:
            nodes = tuple(self._board.nodes.values())
            mark = FlowMark(
                run=self._run, goal=self._board.goal(), created=nodes, changes=self._changes_so_far(), stopped=self._board.stopped
            )
        else:
            mark = FlowMark(run=self._run, goal=self._plan.goal, created=self._plan.nodes)
            self._board.add(self._spec.name, mark)
        await self._context.record(self._event(mark, self._progress))

    def _changes_so_far(self) -> dict[str, TaskChange]:
        board = self._board
        return {
            task: TaskChange(status=status, result=board.results.get(task), reason=board.reasons.get(task, ""))
            for task, status in board.status.items()
            if status != "pending"
        }

    def _event(self, mark: FlowMark, progress: Progress | None = None, id: str = "") -> Event:
        return Event(id=id, flow=mark, actions=EventActions(agent_state=progress))

    async def _run_rounds(self) -> AnyOutcome | None:
        """Run rounds until none is under way and none can begin; or return the outcome of a round that ends the flow."""
        while True:
            await self._record_consequences()
            if self._is_stopped():
                self._finish_lost_rounds()
            else:
                await self._begin_rounds()
            if not self._rounds:
                return None
            done, _ = await asyncio.wait(self._rounds, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                agent, outcome = self._rounds.pop(ended).agent, ended.result()
                if outcome.mark is not None:
                    self._board.add(agent, outcome.mark)
                if isinstance(outcome, Paused):
                    if agent in self._board.turns:
                        self._waiting[agent] = outcome.call_ids
                elif not isinstance(outcome, Finished):
                    return outcome

    def _finish_lost_rounds(self) -> None:
        """Have the calls run that were open when the controller was lost: a flow that stops early finishes its rounds."""
        agents, self._to_finish = self._to_finish, ()
        for agent in [each for each in agents if each in self._board.turns]:
            lost = Assignment(agent, self._board.turns[agent], begins=False)
            self._begin_round(lost, None, only_open_calls=True)

    async def _begin_rounds(self) -> None:
        """Begin the rounds that can begin, and store what has changed by what is known now."""
        board = self._board
        self._is_held_back = False
        begun: list[Assignment] = []
        scheduler = TurnScheduler(self._rules, board, seeded_draw, list(self._rounds.values()), self._waiting.keys())
        for assigned in scheduler.assign():
            if self._limit_reached(begun=len(begun)) is not None:
                break
            if self._is_stopped(begun, assigned):
                # The rounds under way may use up what the condition allows.
                self._is_held_back = True
                break
            begun.append(assigned)
        # A round that begins runs the open calls itself. One that is held back may never begin.
        self._to_finish = tuple(agent for agent in self._to_finish if agent not in {each.agent for each in begun})
        turns = {each.agent: each.tasks for each in begun if each.begins or board.turns.get(each.agent) != each.tasks}
        mark = FlowMark(run=self._run, ready=board.newly_ready(), turns=turns)
        note = self._event(mark, id=new_event_id()) if mark.ready or mark.turns else None
        for assigned in begun:
            self._begin_round(assigned, note)
        if note is not None:
            board.add(self._spec.name, mark)
            # The rounds set out at the same time and bring it along: it costs them no time, and stands before them.
            await self._context.record(note)

    async def _record_consequences(self) -> None:
        """Store the changes that follow for other tasks, before any round begins: its agent is briefed about them."""
        board = self._board
        changes: dict[str, TaskChange] = {}
        while following := {**board.out_of_calls(), **board.skipped_by_failures()}:
            board.add(self._spec.name, FlowMark(run=self._run, changes=following))
            changes.update(following)
        if changes:
            await self._context.record(self._event(FlowMark(run=self._run, changes=changes)))

    def _begin_round(self, assigned: Assignment, note: Event | None, *, only_open_calls: bool = False) -> None:
        self._rounds_begun += 1
        work = Work(
            definition=self._progress[DEFINITION],
            run=self._run,
            round=self._rounds_begun,
            tasks=assigned.tasks,
            peers=peers(self._board, assigned.agent, assigned.tasks),
            begins=assigned.begins,
            only_open_calls=only_open_calls,
        )
        self._rounds[asyncio.create_task(self._context.work_round(assigned.agent, work, note))] = assigned

    def _limit_reached(self, begun: int = 0) -> tuple[str, int] | None:
        """The limit that keeps another round from beginning: field and value.

        Args:
            begun: rounds that are about to begin.
        """
        plan = self._plan
        if 0 < plan.max_rounds <= self._rounds_begun + begun:
            return "max_rounds", plan.max_rounds
        if 0 < plan.max_llm_calls <= self._board.llm_calls + len(self._rounds) + begun:
            return "max_llm_calls", plan.max_llm_calls
        return None

    def _is_stopped(self, begun: Sequence[Assignment] = (), another: Assignment | None = None) -> bool:
        """True when the flow's condition holds.

        Args:
            begun: rounds that are about to begin.
            another: a round that would begin beside them: what they and the rounds under way may use up counts as used.
        """
        board, until = self._board, self._plan.until
        if until is None:
            return False
        calls, turns = board.llm_calls, board.turns_begun - len(board.turns)
        if another is not None:
            calls += len(self._rounds) + len(begun)
        if another is not None and another.begins:
            turns = board.turns_begun + sum(each.begins for each in begun)
        return until.holds(Facts(status=board.status, required=board.required(), llm_calls=calls, agent_turns=turns))

    async def _skip_rest(self) -> None:
        """Skip what is not done when the flow stops early."""
        left = self._board.incomplete()
        if not left:
            return
        stopped = str(self._plan.until)
        skipped = TaskChange(status="skipped", reason=f"the flow has stopped early: {stopped}")
        mark = FlowMark(run=self._run, changes=dict.fromkeys(left, skipped), stopped=stopped)
        self._board.add(self._spec.name, mark)
        await self._context.record(self._event(mark))

    async def _finish(self) -> AnyOutcome:
        """Emit the results of the tasks that no other needs: they are what the flow was for."""
        # The marks in outcomes are without results: these are read from the log.
        board = Board()
        for author, mark in await self._context.marks(self._run, self._progress[SINCE]):
            board.add(author, mark)
        text = _results_text(board)
        event = self._event(FlowMark(run=self._run, objectives=await self._filled_in(last_tasks(board))), {})
        if text:
            event = msgspec.structs.replace(event, content=Content.of_text(text, role="model"))
        await self._context.emit(event, is_last=not self._spec.hooks("after_agent_callback"))
        return Finished()

    async def _filled_in(self, tasks: Sequence[str]) -> dict[str, str]:
        """The objectives of tasks that are templates, filled in: agents of later tasks of the session see them."""
        templates = Templates(self._spec, self._context)
        found: dict[str, str] = {}
        for task in tasks:
            objective = self._board.nodes[task].objective
            if task not in self._plan.results or "{" not in objective or instructions.artifact_names(objective):
                # Artifacts may be large, and their store away: an objective that shows one stays a template.
                continue
            try:
                found[task] = shortened(await templates.filled_in(objective))
            except TemplateError:
                # The state that the agents were given it with is gone.
                continue
        return found


def _results_text(board: Board) -> str:
    """The results of the tasks that no other needs; of a single one, its result alone."""
    last = last_tasks(board)
    if len(last) == 1 and board.status[last[0]] == "successful":
        return result_text(board.results.get(last[0]))
    lines = []
    for task in last:
        text = result_text(board.results.get(task)) or board.reasons.get(task, "")
        status = "" if board.status[task] == "successful" else f" {board.status[task]}"
        lines.append(f"{task}{status}: {text}" if text else f"{task}: {board.status[task]}")
    return "\n".join(lines)
