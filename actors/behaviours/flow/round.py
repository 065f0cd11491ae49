"""What an agent does in one round of a flow: ask its model once about its tasks, and run the tools that it calls.

Everything that the round decides stands on the event that answers the calls, so that a task is done exactly when that event is
in the log. A round that was interrupted between the model's answer and that event is taken up at the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from actors.behaviours.lifecycle import content_of, failed_before
from actors.behaviours.llm.run import LlmRun
from actors.behaviours.llm.tool_calls import response_event, run_calls
from actors.definitions.flows.plan import FlowPlan
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import Actions, CallbackContext
from actors.definitions.tools.tasks import CreateTasksTool, EndTurnTool, FailTool, RoundDecisions, SucceedTool
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import Context, WorkContext
from actors.interfaces.model import Model
from actors.messages.content import Content, FunctionCall
from actors.messages.event import USER, Event
from actors.messages.flow import COMPLETE, FlowMark, TaskNode
from actors.messages.model import LlmRequest, LlmResponse
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused
from actors.rules.checks import confirmation
from actors.rules.flow.board import Board
from actors.rules.flow.tool_names import is_controllers
from actors.rules.prompt import instructions
from actors.rules.prompt.task_briefing import Brief, CompleteTask, briefing
from actors.rules.prompt.task_history import OpenCall
from actors.rules.routing.resumption import is_failure

GO_ON = "Go on with your tasks."
"""Said to a model that has spoken last itself: models answer only to somebody."""


async def run_round(spec: AgentSpec, model: Model, context: WorkContext) -> AnyOutcome:
    """One round of an LLM agent in a flow."""
    plan: FlowPlan = await context.plan(context.work.definition)
    board = (await context.task_view()).board(context.work.run)
    return await _Round(spec, model, context, plan, board).run()


def task_tools(own: Sequence[Tool], plan: FlowPlan, board: Board, tasks: Sequence[str], peers: Sequence[str]) -> _Tools:
    """The tools of a round: the agent's own, those of its tasks, and the controller's; with the desk that the latter write on."""
    desk = RoundDecisions(tasks, board, plan.rules.agents)
    tools: dict[str, Tool] = {}
    for tool in (*own, *(tool for task in tasks for tool in plan.tools.get(task, ()))):
        tools.setdefault(tool.name, tool.at(desk) if isinstance(tool, CreateTasksTool) else tool)
    for task in tasks:
        result = plan.result_type(board.nodes[task])
        schema = None if result.is_none else result.schema
        for made in (SucceedTool(desk, task, schema, result.checked), FailTool(desk, task)):
            tools[made.name] = made
    if peers:
        tools[EndTurnTool.name] = EndTurnTool(desk, peers)
    return _Tools(tools, desk)


class _Tools(msgspec.Struct):
    by_name: dict[str, Tool]
    desk: RoundDecisions


class _Round(LlmRun):
    def __init__(self, spec: AgentSpec, model: Model, context: WorkContext, plan: FlowPlan, board: Board) -> None:
        super().__init__(spec, model, cast(Context, context))
        self._at_work = context
        self._work = context.work
        self._plan = plan
        self._board = board
        made = task_tools(self._agent.tools, plan, board, self._work.tasks, self._work.peers)
        self._tools, self._desk = made.by_name, made.desk

    async def run(self) -> AnyOutcome:
        """The round from its beginning to its end."""
        # What the log has of this round, when it was lost with its process.
        before = [event for event in self._context.done if self._is_of_round(event)]
        if before and is_failure(before[-1]):
            return failed_before(before[-1])
        outcome = await self._taken_up() or (Finished() if before else await self._new())
        mark = _merged([event.flow for event in before if event.flow is not None], self._mark())
        if mark.ends_turn or any(change.status in COMPLETE for change in mark.changes.values()):
            await content_of(self._spec.hooks("after_agent_callback"), self._context)
        without_results = {task: msgspec.structs.replace(change, result=None) for task, change in mark.changes.items()}
        return msgspec.structs.replace(outcome, mark=msgspec.structs.replace(mark, changes=without_results))

    def _is_of_round(self, event: Event) -> bool:
        return event.flow is not None and (event.flow.run, event.flow.round) == (self._work.run, self._work.round)

    async def _new(self) -> AnyOutcome:
        if self._work.begins and await content_of(self._spec.hooks("before_agent_callback"), self._context):
            return Finished()
        # That there was a round has to stand in the log also when nothing was said.
        answer = await self._asked() or Event(flow=self._mark())
        calls = list(answer.function_calls())
        if calls and all(is_controllers(call.name) for call in calls):
            # These calls touch nothing but the desk, so that they and their answers can be stored in one go.
            return await self._answer_calls(calls, {}, together_with=answer)
        await self._context.emit(answer)
        return await self._answer_calls(calls, {}) if calls else Finished()

    async def _taken_up(self) -> AnyOutcome | None:
        """Settle calls that the agent has made before and that are open; None when there are none."""
        waiting: list[str] = []
        calls: list[FunctionCall] = []
        decided: dict[str, dict[str, Any] | None] = {}
        for made in (await self._at_work.task_view()).open_calls(self._work.run):
            call_id = made.call.id or ""
            if self._is_settled(made):
                continue
            if self._may_wait(made.call) and made.answer is None:
                waiting.append(call_id)
                continue
            calls.append(made.call)
            if made.answer is not None:
                refused = confirmation.refusal(made.call.name, made.answer.response)
                decided[call_id] = {"error": refused} if refused is not None else None
        if calls:
            outcome = await self._answer_calls(calls, decided)
            return Paused(call_ids=tuple(waiting)) if waiting else outcome
        return Paused(call_ids=tuple(waiting)) if waiting else None

    def _is_settled(self, made: OpenCall) -> bool:
        """True for a long-running call to which the user has said all, or whose tasks were done without its answer."""
        if all(map(self._board.is_complete, made.origin.tasks)):
            return True
        tool = self._tools.get(made.call.name)
        return made.answer is not None and not (tool is not None and tool.require_confirmation)

    async def _answer_calls(
        self,
        calls: Sequence[FunctionCall],
        decided: Mapping[str, dict[str, Any] | None],
        together_with: Event | None = None,
    ) -> AnyOutcome:
        """Run the tools and store what came of them, with what was decided about the tasks."""
        answers = await run_calls(self._spec, self._tools, calls, self._tool_context, decided)
        event = response_event(answers) or Event()
        # A transfer has nowhere to go in a flow: the turn stays with the controller.
        actions = msgspec.structs.replace(event.actions, transfer_to_agent=None)
        mark = msgspec.structs.replace(self._mark(), llm_calls=0)
        event = msgspec.structs.replace(event, actions=actions, flow=mark)
        if together_with is None:
            await self._context.emit(event)
        else:
            await self._context.emit_both(together_with, event)
        pending = tuple(answer.call.id or "" for answer in answers if answer.response is None)
        return Paused(call_ids=pending) if pending else Finished()

    def _mark(self) -> FlowMark:
        desk = self._desk
        return FlowMark(
            run=self._work.run,
            tasks=self._work.tasks,
            round=self._work.round,
            llm_calls=self._at_work.llm_calls,
            created=tuple(desk.created.values()),
            changes=dict(desk.changes),
            ends_turn=desk.ends_turn,
            next_agent=desk.next_agent,
        )

    def _finished_event(self, response: LlmResponse, actions: Actions) -> Event:
        return msgspec.structs.replace(super()._finished_event(response, actions), flow=self._mark())

    def _keep_output(self, event: Event, actions: Actions) -> None:
        """What an agent says in a flow is no answer: its tasks have the results."""

    # ------------------------------------------------------------------------------------------------------- the request
    async def _request(self, context: CallbackContext) -> LlmRequest:
        request = await super()._request(context)
        # The form of an agent's answers is not that of its tasks' results, and would keep it from calling anything.
        request.output_schema = None
        return request

    async def _contents(self) -> list[Content]:
        contents = (await self._at_work.task_view()).contents_for(self._work.run, self._work.tasks)
        if not contents or contents[-1].role != USER:
            contents.append(Content.of_text(GO_ON))
        return contents

    async def _system_instruction(self) -> str:
        return instructions.join(
            [
                await self._instruction(self._spec.global_instruction),
                await self._instruction(self._agent.instruction),
                instructions.identity(self._spec.name, self._agent.description),
                await self._briefing(),
            ]
        )

    async def _briefing(self) -> str:
        board, tasks = self._board, self._work.tasks
        briefs = [await self._brief(board.nodes[task]) for task in tasks]
        before = board.upstream(tasks) - set(tasks)
        known = [await self._known(board.nodes[task]) for task in board.nodes if task in before and board.is_complete(task)]
        return briefing(briefs, known, self._work.peers)

    async def _brief(self, node: TaskNode) -> Brief:
        parent = self._board.nodes.get(node.parent) if node.parent is not None else None
        return Brief(
            name=node.name,
            objective=await self._objective(node),
            result=self._plan.result_type(node).description(),
            parent=f"`{parent.name}`: {await self._objective(parent)}" if parent is not None else "",
        )

    async def _known(self, node: TaskNode) -> CompleteTask:
        board = self._board
        result = board.results.get(node.name)
        told = "" if result is None else result if isinstance(result, str) else msgspec.json.encode(result).decode()
        return CompleteTask(
            name=node.name,
            objective=await self._objective(node),
            status=board.status[node.name],
            text=told or board.reasons.get(node.name, ""),
        )

    async def _objective(self, node: TaskNode) -> str:
        """What is to be achieved. Only what a definition says is a template; an agent may write braces as it likes."""
        return await self._instruction(node.objective) if node.name in self._plan.results else node.objective


def _merged(before: Sequence[FlowMark], last: FlowMark) -> FlowMark:
    """What a round says of the flow all in all."""
    marks = [*before, last]
    return msgspec.structs.replace(
        last,
        llm_calls=sum(mark.llm_calls for mark in marks),
        created=tuple(node for mark in marks for node in mark.created),
        changes={task: change for mark in marks for task, change in mark.changes.items()},
        ends_turn=any(mark.ends_turn for mark in marks),
        next_agent=next((mark.next_agent for mark in reversed(marks) if mark.next_agent is not None), None),
    )
