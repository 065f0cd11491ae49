"""Definitions of tasks and flows."""

from actors.layers.flows.definitions.agent import FlowAgent
from actors.layers.flows.definitions.flow import Flow
from actors.layers.flows.definitions.plan import FlowPlan
from actors.layers.flows.definitions.results import ResultType
from actors.layers.flows.definitions.task import Task

__all__ = ["Flow", "FlowAgent", "FlowPlan", "ResultType", "Task"]
