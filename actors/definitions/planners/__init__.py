"""Planners: how an agent thinks before it acts."""

from actors.definitions.planners.base import BasePlanner
from actors.definitions.planners.built_in import BuiltInPlanner
from actors.definitions.planners.plan_re_act import PlanReActPlanner

__all__ = ["BasePlanner", "BuiltInPlanner", "PlanReActPlanner"]
