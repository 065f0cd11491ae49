"""Builds the request of a round of a flow again, from the definitions of agent and flow, and the log up to the call.

What is rebuilt and what is not is decided as for any agent: see actors.behaviours.llm.rebuilding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from actors.behaviours.flow.prompt import TaskPrompt
from actors.behaviours.flow.round import task_tools
from actors.behaviours.llm.rebuilding import PastRun, inexact_names, inexact_tools, settled_request
from actors.definitions.flows.plan import FlowPlan
from actors.definitions.tree.own_tools import OwnTools
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import WorkContext
from actors.messages.flow import FlowMark, TaskNode, Work
from actors.messages.llm.model import LlmRequest
from actors.rules.flow.board import Board
from actors.rules.flow.turn_order import peers
from actors.rules.prompt.instructions import template_names


class PastRound:
    """A round as of its model call.

    Args:
        definition: the name of the flow's definition.
        mark: that of the answer.
        plan: the definition.
        board: how far the flow was, before the answer.
    """

    def __init__(self, spec: AgentSpec, definition: str, mark: FlowMark, plan: FlowPlan, board: Board) -> None:
        self._spec = spec
        self._definition = definition
        self._mark = mark
        self._plan = plan
        self._board = board

    def inexact_because(self) -> str:
        """The reason why the request cannot be rebuilt; "" where it can."""
        if missing := [task for task in self._mark.tasks if task not in self._board.nodes]:
            return f"the log does not say what the task {missing[0]!r} is"
        tools = [tool for task in self._mark.tasks for tool in self._plan.tools.get(task, ())]
        return inexact_tools(tools) or inexact_names(self.names())

    def names(self) -> list[str]:
        """The names of state that the texts of the tasks have in their templates."""
        return [name for node in self._shown() for text in self._templates(node) for name in template_names(text)]

    def _shown(self) -> Iterator[TaskNode]:
        """The tasks of which the briefing may say something."""
        nodes = self._board.nodes
        for task in self._board.upstream(self._mark.tasks):
            yield nodes[task]
        for task in self._mark.tasks:
            if (parent := nodes[task].parent) is not None and parent in nodes:
                yield nodes[parent]

    def _templates(self, node: TaskNode) -> Iterator[str]:
        if node.name in self._plan.results:
            yield node.objective
        yield node.instructions

    async def request(self, past: PastRun) -> LlmRequest:
        """Build the request again. Raises TemplateError."""
        context, tasks, agent = cast(WorkContext, past), self._mark.tasks, self._spec.name
        others = peers(self._board, agent, tasks)
        work = Work(definition=self._definition, run=self._mark.run, round=self._mark.round, tasks=tasks, peers=others)
        own = self._spec.llm_agent.tools
        tools = task_tools(agent, own, self._plan, self._board, tasks, others)
        prompt = TaskPrompt(self._spec, context, work, self._plan, self._board)
        return await settled_request(self._spec, context, prompt, OwnTools(tools.by_name))
