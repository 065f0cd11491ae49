"""The tools that an LLM agent has by its definition and its place in the tree."""

from __future__ import annotations

from actors.definitions.graphs.finish_task import FinishTaskTool
from actors.definitions.tools.base import Tool
from actors.definitions.tools.requests.more_budget import RequestBudgetTool
from actors.definitions.tree.own_tools import OwnTools
from actors.definitions.tree.spec import AgentSpec
from actors.rules.checks.budget_question import REQUEST_BUDGET


def own_tools(spec: AgentSpec, finish: FinishTaskTool | None = None, *, asks_for_more: bool = False) -> OwnTools:
    """The tools of an agent by name: its own, the one that ends its task, that of budgets, and those of transfers.

    Args:
        finish: ends the task of an agent that works on one; None: there is a new one.
        asks_for_more: a budget of the turn, once used up, has the user asked for more.
    """
    is_task = spec.llm.is_task
    if not is_task and not asks_for_more:
        return spec.own_tools
    agent = spec.llm_agent
    by_name: dict[str, Tool] = {tool.name: tool for tool in agent.tools}
    if is_task:
        finish = finish or FinishTaskTool(agent.output_type)
        by_name[finish.name] = finish
    if asks_for_more:
        by_name[REQUEST_BUDGET] = RequestBudgetTool()
    by_name.update(spec.tools_of_transfers(by_name))
    return OwnTools(by_name)
