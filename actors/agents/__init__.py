"""Definitions: what a user says an agent is."""

from actors.agents.agent_tool import AgentTool
from actors.agents.base import Agent, Placement
from actors.agents.custom import CustomAgent
from actors.agents.llm import LlmAgent
from actors.agents.plugin import Plugin
from actors.agents.supervision import Supervision
from actors.agents.tree import AgentSpec, AgentTree
from actors.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent

__all__ = [
    "Agent",
    "AgentSpec",
    "AgentTool",
    "AgentTree",
    "CustomAgent",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "Placement",
    "Plugin",
    "SequentialAgent",
    "Supervision",
]
