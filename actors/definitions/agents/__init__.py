"""Definitions of agents."""

from actors.definitions.agents.base import BaseAgent, Placement
from actors.definitions.agents.callbacks import Plugin
from actors.definitions.agents.llm import Agent, LlmAgent

__all__ = [
    "Agent",
    "BaseAgent",
    "LlmAgent",
    "Placement",
    "Plugin",
]
