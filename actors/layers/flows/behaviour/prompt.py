"""What an agent's model is shown in a round of a flow: the events that concern its tasks, and a briefing about them."""

from __future__ import annotations

from actors.behaviours.model_call import Templates
from actors.definitions.tree.spec import AgentSpec
from actors.layers.flows.definitions.context import ResultOf
from actors.layers.flows.definitions.plan import FlowPlan
from actors.layers.flows.rules.board import Board
from actors.layers.flows.rules.task_briefing import Brief, CompleteTask, briefing, result_text
from actors.layers.flows.runs import RoundInvocation
from actors.messages.content import Content
from actors.messages.event import USER
from actors.messages.flow import TaskNode, Work
from actors.messages.json_types import JsonValue
from actors.rules.prompt import instructions

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
