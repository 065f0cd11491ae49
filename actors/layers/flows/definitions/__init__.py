"""Definitions of tasks and flows."""

from actors.layers.flows.definitions.agent import FlowAgent
from actors.layers.flows.definitions.flow import Flow, FlowPlan
from actors.layers.flows.definitions.task import ResultType, Task

__all__ = ["Flow", "FlowAgent", "FlowPlan", "ResultType", "Task"]
