"""Definitions of tasks and flows."""

from actors.flows.agent import FlowAgent
from actors.flows.flow import Flow
from actors.flows.plan import FlowPlan
from actors.flows.results import ResultType
from actors.flows.task import Task

__all__ = ["Flow", "FlowAgent", "FlowPlan", "ResultType", "Task"]
