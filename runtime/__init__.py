"""Makes the actors live: the driver, the engines, the stores and the models."""

from runtime.driver.flows import TaskResult
from runtime.driver.runtime import Runtime
from runtime.driver.statistics import RuntimeStatistics
from runtime.driver.turn import Turn, TurnResult
from runtime.settings import Settings

__all__ = ["Runtime", "RuntimeStatistics", "Settings", "TaskResult", "Turn", "TurnResult"]
