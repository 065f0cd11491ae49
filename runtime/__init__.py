"""Makes the actors live: the driver, the engines, the stores and the models."""

from runtime.driver import Runtime, RuntimeStatistics
from runtime.flows import TaskResult
from runtime.settings import Settings
from runtime.turn import Turn, TurnResult

__all__ = ["Runtime", "RuntimeStatistics", "Settings", "TaskResult", "Turn", "TurnResult"]
