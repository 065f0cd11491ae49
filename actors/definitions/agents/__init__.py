"""Definitions of agents."""

from actors.definitions.agents.base import BaseAgent, Placement
from actors.definitions.agents.llm import Agent, LlmAgent
from actors.definitions.agents.plugin import Plugin

__all__ = [
    "Agent",
    "BaseAgent",
    "LlmAgent",
    "Placement",
    "Plugin",
]
