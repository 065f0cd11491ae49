"""Tests of agents: models that answer from a script or by patterns, paths of turns, and clocks."""

from actors.testing import ManualClock, PatternModel, ScriptedModel
from runtime.testing import Called, Failed, FrozenClock, Said, Trajectory, Transferred, trajectory

__all__ = [
    "Called",
    "Failed",
    "FrozenClock",
    "ManualClock",
    "PatternModel",
    "Said",
    "ScriptedModel",
    "Trajectory",
    "Transferred",
    "trajectory",
]
