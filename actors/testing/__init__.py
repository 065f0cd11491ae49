"""Fakes for tests: models that answer from a script or by patterns, on every engine, and a clock whose sleeps take no time."""

from actors.testing.clock import ManualClock
from actors.testing.models import PatternModel, ScriptedModel

__all__ = ["ManualClock", "PatternModel", "ScriptedModel"]
