"""The tree of the soak runs: agents that transfer, call tools, ask other agents, and work in parallel."""

from __future__ import annotations

from typing import Any

from actors import AgentTool, BaseAgent, LlmAgent, ParallelAgent, ToolContext
from actors.interfaces.model import Model
from actors.testing import PatternModel

MESSAGES = ("Hello there", "My bill is wrong", "And the invoice of May?", "Back to the desk", "Ask the expert", "Look around")
"""What a user says, one after the other: each makes other agents work."""


def look_up(number: int, tool_context: ToolContext) -> dict[str, int]:
    """Look a bill up."""
    tool_context.state["bills"] = tool_context.state.get("bills", 0) + 1
    return {"number": number, "amount": 42}


def soak_tree(expert_model: Model | None = None) -> BaseAgent:
    """The root; `billing` keeps the conversation until it is sent back, `around` is a workflow.

    Args:
        expert_model: the model of the agent that others ask; None: one by patterns.
    """
    look = {"call": "look_up", "args": {"number": 7}}
    billing = LlmAgent(
        name="billing",
        model=PatternModel([("tool:look_up", "It is settled. " * 8), ("back", {"transfer": "desk"}), ("", look)]),
        tools=[look_up],
    )
    watchers = [LlmAgent(name=name, model=PatternModel([], default="Nothing to be seen. " * 8)) for name in ("left", "right")]
    around = ParallelAgent(name="around", sub_agents=watchers)
    expert = LlmAgent(name="expert", model=expert_model or PatternModel([], default="It depends. " * 8))
    ask = {"call": "expert", "args": {"request": "What do you think?"}}
    patterns: list[tuple[str, Any]] = [("tool:expert", "The expert is not sure."), ("expert", ask)]
    patterns += [("around", {"transfer": "around"}), ("bill|invoice", {"transfer": "billing"})]
    model = PatternModel(patterns, default="At your service. " * 8)
    return LlmAgent(name="desk", model=model, tools=[AgentTool(expert)], sub_agents=[billing, around])
