"""Definitions of agents."""

from actors.definitions.agents.agent_tool import AgentTool
from actors.definitions.agents.base import BaseAgent, Placement
from actors.definitions.agents.custom import CustomAgent
from actors.definitions.agents.llm import Agent, LlmAgent
from actors.definitions.agents.plugin import Plugin
from actors.definitions.agents.supervision import Supervision
from actors.definitions.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent

__all__ = [
    "Agent",
    "AgentTool",
    "BaseAgent",
    "CustomAgent",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "Placement",
    "Plugin",
    "SequentialAgent",
    "Supervision",
]
