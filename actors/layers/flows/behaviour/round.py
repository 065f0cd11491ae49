"""What an agent does in one round of a flow: call its model once about its tasks, and run the tools that the model calls.

Everything that the round decides stands on the event with the tools' responses, so that a task is done exactly when that event is
in the log. A round that was lost between the model's response and that event goes on at the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.agent.actor import with_tools
from actors.behaviours.lifecycle import emit_content_of, stored_failure
from actors.behaviours.model_call import ModelCall, Templates
from actors.behaviours.tool_calls import (
    NO_ANSWERS,
    CallAnswers,
    Decisions,
    StepResults,
    ToolCalls,
    UserAnswer,
    held_decisions,
    pause_of,
)
from actors.definitions.spec import AgentSpec, OwnTools
from actors.definitions.tools.base import Tool
from actors.interfaces.model import Model
from actors.layers.flows.definitions.flow import FlowPlan
from actors.layers.flows.definitions.task import ResultOf
from actors.layers.flows.definitions.task_tools import (
    AskUserTool,
    CreateTasksTool,
    EndTurnTool,
    FailTool,
    RoundDecisions,
    SucceedTool,
)
from actors.layers.flows.rules.board import COMPLETE, Board
from actors.layers.flows.rules.prompt import Brief, CompleteTask, UnansweredCall, briefing, is_controllers, result_text
from actors.layers.flows.runs import RoundInvocation, plan_of
from actors.messages.content import Content, FunctionCall
from actors.messages.event import USER, Event
from actors.messages.flow import FlowMark, TaskNode, Work
from actors.messages.json_types import JsonValue
from actors.messages.protocol.runs import AnyOutcome, Finished, Paused
from actors.rules.prompt import instructions
from actors.rules.routing.resumption import is_failure


async def run_round(spec: AgentSpec, context: RoundInvocation) -> AnyOutcome:
    """Do one round of an LLM agent in a flow.

    Returns:
        Finished, or Paused while calls of the agent wait for responses. Its `mark` tells the controller what the round decided.
    """
    model = context.parts.model
    resolved = await with_tools(spec, context, can_wait=False)
    if isinstance(resolved, Paused):
        return resolved
    plan = await plan_of(context, context.work.definition)
    board = (await context.task_view()).board(context.work.run)
    return await _Round(resolved, model, context, plan, board).run()


class RoundTools(NamedTuple):
    """The tools of a round, and the decisions that the controller's tools among them note."""

    by_name: dict[str, Tool]
    decisions: RoundDecisions


def task_tools(
    agent: str, own: Sequence[Tool], plan: FlowPlan, board: Board, tasks: Sequence[str], peers: Sequence[str]
) -> RoundTools:
    """The tools of a round: the agent's own, those of its tasks, and the controller's."""
    decisions = RoundDecisions(tasks, board, plan.rules.agents)
    tools: dict[str, Tool] = {}
    for tool in (*own, *(tool for task in tasks for tool in plan.tools.get(task, ()))):
        tools.setdefault(tool.name, tool.at(decisions) if isinstance(tool, CreateTasksTool) else tool)
    nodes = [board.nodes[task] for task in tasks]
    if any(node.interactive for node in nodes):
        tools.setdefault(AskUserTool.name, AskUserTool())
    for task in (node.name for node in nodes if node.may_be_ended_by(agent)):
        result = plan.result_type(board.nodes[task])
        schema = None if result.is_none else result.schema
        for ending in (SucceedTool(decisions, task, schema, result.checked), FailTool(decisions, task)):
            tools[ending.name] = ending
    if peers:
        tools[EndTurnTool.name] = EndTurnTool(decisions, peers)
    return RoundTools(tools, decisions)


class _Round:
    """One round. See `run_round` for the arguments; `plan` is the definition of the flow, `board` how far it is."""

    def __init__(self, spec: AgentSpec, model: Model, context: RoundInvocation, plan: FlowPlan, board: Board) -> None:
        self._spec = spec
        self._context = context
        self._held = held_decisions(context.done)
        work = self._work = context.work
        self._board = board
        own = spec.llm_agent.tools
        by_name, self._decisions = task_tools(spec.name, own, plan, board, work.tasks, work.peers)
        by_name.update((tool.name, tool) for tool in context.interceptors.tools())
        self._tools = ToolCalls(spec, context, context.interceptors, OwnTools(by_name))
        # What an agent says in a flow is not kept as its output: its tasks have the results.
        self._prompt = TaskPrompt(spec, context, work, plan, board)
        self._model_call = ModelCall(spec, model, context, context.interceptors, self._prompt, self._tools)

    async def run(self) -> AnyOutcome:
        """The round from its beginning to its end."""
        # What the log has of this round, when it was lost with its process.
        before = [event for event in self._context.done if self._is_of_round(event)]
        if before and is_failure(before[-1]):
            return stored_failure(before[-1])
        is_done = bool(before) or self._work.only_open_calls
        outcome = await self._run_open_calls() or (Finished() if is_done else await self._call_model())
        mark = _merged([event.flow for event in before if event.flow is not None], self._mark())
        if mark.ends_turn or any(change.status in COMPLETE for change in mark.changes.values()):
            await emit_content_of(self._spec.hooks("after_agent_callback"), self._context)
        without_results = {task: msgspec.structs.replace(change, result=None) for task, change in mark.changes.items()}
        return msgspec.structs.replace(outcome, mark=msgspec.structs.replace(mark, changes=without_results))

    def _is_of_round(self, event: Event) -> bool:
        return event.flow is not None and (event.flow.run, event.flow.round) == (self._work.run, self._work.round)

    async def _call_model(self) -> AnyOutcome:
        if self._work.begins and await emit_content_of(self._spec.hooks("before_agent_callback"), self._context):
            return Finished()
        # The log has to say that there was a round, also when the model returned nothing.
        response = await self._model_call.run() or Event()
        response = msgspec.structs.replace(response, flow=self._mark())
        calls = list(response.function_calls())
        if calls and all(is_controllers(call.name) for call in calls):
            # These calls only note decisions, so they and their responses are stored in one go.
            return await self._run_calls(calls, {}, together_with=response)
        await self._context.emit(response)
        return await self._run_calls(calls, {}) if calls else Finished()

    async def _run_open_calls(self) -> AnyOutcome | None:
        """Run or answer the calls that the agent made in earlier rounds and that are open; None if there are none."""
        waiting: list[str] = []
        calls: list[FunctionCall] = []
        answers = CallAnswers()
        open_calls = list((await self._context.task_view()).open_calls(self._work.run))
        await self._tools.decide(open_call.call for open_call in open_calls)
        for open_call in open_calls:
            call_id = open_call.call.id or ""
            if self._is_over(open_call):
                continue
            if open_call.answer is None and (open_call.asked is not None or self._tools.may_wait(open_call.call)):
                waiting.append(call_id)
                continue
            calls.append(open_call.call)
            if open_call.answer is not None:
                answers.add(call_id, open_call.call.name, open_call.answer.response, open_call.asked)
        if calls:
            outcome = await self._run_calls(calls, answers.decided, answers.given)
            return Paused(call_ids=tuple(waiting)) if waiting else outcome
        return Paused(call_ids=tuple(waiting)) if waiting else None

    def _is_over(self, open_call: UnansweredCall) -> bool:
        """True for a long-running call that the user has answered for good, or whose tasks were completed without the answer."""
        if all(map(self._board.is_complete, open_call.origin.tasks)):
            return True
        tool = self._tools.by_name.get(open_call.call.name)
        if open_call.asked is not None:
            return False
        return open_call.answer is not None and not (tool is not None and tool.require_confirmation)

    async def _run_calls(
        self,
        calls: Sequence[FunctionCall],
        decided: Decisions,
        answers: Mapping[str, UserAnswer] = NO_ANSWERS,
        together_with: Event | None = None,
    ) -> AnyOutcome:
        """Run tools, and store their responses with what was decided about the tasks.

        Args:
            together_with: the event that makes the calls, if it is not stored yet.
        """

        async def store(event: Event, is_last: bool) -> Event:
            # A transfer has nowhere to go in a flow: the turn stays with the controller.
            actions = msgspec.structs.replace(event.actions, transfer_to_agent=None)
            mark = self._mark() if is_last else FlowMark(run=self._work.run, tasks=self._work.tasks, round=self._work.round)
            event = msgspec.structs.replace(event, actions=actions, flow=msgspec.structs.replace(mark, llm_calls=0))
            if together_with is None:
                return await self._context.emit(event)
            return (await self._context.emit_all([together_with, event]))[-1]

        step = StepResults(store, self._spec.limits, self._tools.large, self._held)
        self._held = {}
        results, event = await step.end(await self._tools.run(calls, decided, step, answers))
        if event is None:
            # The log has to say what the round decided, also when no call has a response yet.
            await store(Event(), True)
        return pause_of(results) or Finished()

    def _mark(self) -> FlowMark:
        decisions = self._decisions
        return FlowMark(
            run=self._work.run,
            tasks=self._work.tasks,
            round=self._work.round,
            llm_calls=self._context.llm_calls,
            created=tuple(decisions.created.values()),
            changes=dict(decisions.changes),
            ends_turn=decisions.ends_turn,
            next_agent=decisions.next_agent,
        )


def _merged(before: Sequence[FlowMark], last: FlowMark) -> FlowMark:
    """The mark of the flow that sums up all events of a round."""
    marks = [*before, last]
    return msgspec.structs.replace(
        last,
        llm_calls=sum(mark.llm_calls for mark in marks),
        created=tuple(node for mark in marks for node in mark.created),
        changes={task: change for mark in marks for task, change in mark.changes.items()},
        ends_turn=any(mark.ends_turn for mark in marks),
        next_agent=next((mark.next_agent for mark in reversed(marks) if mark.next_agent is not None), None),
    )


GO_ON = "Go on with your tasks."
"""Said to a model whose own message is the last one: models answer only to others."""


class TaskPrompt:
    """Implements `actors.behaviours.model_call.Prompt` for an agent in a round of a flow."""

    has_output_schema = False
    """The form of the agent's responses is not that of its tasks' results, and would keep it from calling tools."""

    fixed_instruction: str | None = None
    """The briefing is another one in each round."""

    def __init__(self, spec: AgentSpec, context: RoundInvocation, work: Work, plan: FlowPlan, board: Board) -> None:
        self._agent = spec.name
        self._context = context
        self._work = work
        self._plan = plan
        self._board = board
        self._templates = Templates(spec, context)

    async def contents(self) -> list[Content]:
        """Return what was made by the agent, or for its tasks, or upstream of them."""
        contents = (await self._context.task_view()).contents_for(self._work.run, self._work.tasks)
        if not contents or contents[-1].role != USER:
            contents.append(Content.of_text(GO_ON))
        given = self._context.run_config.model_input_context or ()
        return await self._templates.placed_in([*given, *contents])

    async def system_instruction(self) -> str:
        """Return the instructions of the tree and of the agent, its identity, and the briefing."""
        return instructions.join([*await self._templates.of_agent(), await self._briefing()])

    async def _briefing(self) -> str:
        board, tasks = self._board, self._work.tasks
        briefs = [await self._brief(board.nodes[task]) for task in tasks]
        shown = {
            value.task for task in tasks for value in self._plan.context.get(task, {}).values() if isinstance(value, ResultOf)
        }
        upstream = board.upstream(tasks) - set(tasks) - shown
        known = [await self._known(board.nodes[task]) for task in board.nodes if task in upstream and board.is_complete(task)]
        return briefing(briefs, known, self._work.peers)

    async def _brief(self, node: TaskNode) -> Brief:
        parent = self._board.nodes.get(node.parent) if node.parent is not None else None
        return Brief(
            name=node.name,
            objective=await self._objective(node),
            result=self._plan.result_type(node).description(),
            parent=f"`{parent.name}`: {await self._objective(parent)}" if parent is not None else "",
            instructions=await self._templates.filled_in(node.instructions),
            context=dict([await self._shown(key, value) for key, value in self._plan.context.get(node.name, {}).items()]),
            is_interactive=node.interactive,
            ended_by=() if node.may_be_ended_by(self._agent) else node.completion_agents,
        )

    async def _shown(self, key: str, value: JsonValue | ResultOf) -> tuple[str, str]:
        if not isinstance(value, ResultOf):
            return key, result_text(value) or "none"
        known = await self._known(self._board.nodes[value.task])
        came = f"the result of `{known.name}`" if known.status == "successful" else f"`{known.name}` was {known.status}"
        return f"{key} ({came}: {known.objective})", known.text or "none"

    async def _known(self, node: TaskNode) -> CompleteTask:
        board = self._board
        return CompleteTask(
            name=node.name,
            objective=await self._objective(node),
            status=board.status[node.name],
            text=result_text(board.results.get(node.name)) or board.reasons.get(node.name, ""),
        )

    async def _objective(self, node: TaskNode) -> str:
        """Return what is to be achieved. An objective in the definition is a template; one that an agent has written is not."""
        return await self._templates.filled_in(node.objective) if node.name in self._plan.results else node.objective
