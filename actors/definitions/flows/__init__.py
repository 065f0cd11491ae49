"""Definitions of tasks and flows."""

from actors.definitions.flows.agent import FlowAgent
from actors.definitions.flows.flow import Flow
from actors.definitions.flows.plan import FlowPlan
from actors.definitions.flows.results import ResultType
from actors.definitions.flows.task import Task

__all__ = ["Flow", "FlowAgent", "FlowPlan", "ResultType", "Task"]
