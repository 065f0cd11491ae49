"""Fakes that ship: models that answer from a script or by patterns, on every engine."""

from actors.testing.models import PatternModel, ScriptedModel

__all__ = ["PatternModel", "ScriptedModel"]
