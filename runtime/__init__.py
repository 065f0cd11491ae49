"""Makes the actors live: the driver, the engines, the stores and the models.

The names below are loaded when they are first used: every agent's process imports something under `runtime`, and needs no driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from raygrove.other_names import refuse_other_name
from raygrove.shadowing import refuse_hidden_packages

# Before anything of `actors` is imported, which a file of the program may hide.
refuse_hidden_packages()

# `Content.to_genai` works from here on, in programs as well as in agents' processes.
import runtime.models  # noqa: E402, F401
from actors.errors.tracebacks import count_as_own  # noqa: E402

if TYPE_CHECKING:
    from actors.layers.graphs.rules.shape import EdgeReason
    from actors.layers.listing.messages import PendingCall
    from actors.layers.recording.messages import RecordedCall
    from actors.layers.spending.messages import UsageReport, UsageSums, UsedTurn
    from actors.layers.stores.batch import BatchInfo, BatchItem, CaseTurn
    from actors.layers.stores.schedule import Schedule
    from actors.messages.protocol.log import CallAttempt
    from actors.messages.turn_info import TurnInfo
    from runtime.driver.ray_data import RunTurns
    from runtime.driver.runtime import Runtime
    from runtime.driver.scripts.inputs import MapResult
    from runtime.driver.scripts.questions import Question
    from runtime.driver.scripts.turn_map import TurnMap
    from runtime.driver.services.deployment import RuntimeStatistics
    from runtime.driver.services.outline import AgentInfo
    from runtime.driver.turns.description import TurnDescription
    from runtime.driver.turns.finding import CallQuery, TurnQuery
    from runtime.driver.turns.reports import BoardTask, FlowBoard, SelectionReason
    from runtime.driver.turns.turn import TaskResult, Turn, TurnResult
    from runtime.frontends.console.lines import event_lines
    from runtime.integrations.code.tool import python_tool
    from runtime.integrations.openapi.auth import ApiKeyAuth, BasicAuth, BearerAuth
    from runtime.integrations.openapi.tools import OpenApiTools
    from runtime.integrations.skills.toolset import SkillToolset
    from runtime.observability.logs.kept import DeploymentEvent, LogLine
    from runtime.settings import Settings

__all__ = [
    "AgentInfo",
    "ApiKeyAuth",
    "BasicAuth",
    "BatchInfo",
    "BatchItem",
    "BearerAuth",
    "BoardTask",
    "CallAttempt",
    "CallQuery",
    "CaseTurn",
    "DeploymentEvent",
    "EdgeReason",
    "FlowBoard",
    "LogLine",
    "MapResult",
    "OpenApiTools",
    "PendingCall",
    "Question",
    "RecordedCall",
    "RunTurns",
    "Runtime",
    "RuntimeStatistics",
    "Schedule",
    "SelectionReason",
    "Settings",
    "SkillToolset",
    "TaskResult",
    "Turn",
    "TurnDescription",
    "TurnInfo",
    "TurnMap",
    "TurnQuery",
    "TurnResult",
    "UsageReport",
    "UsageSums",
    "UsedTurn",
    "event_lines",
    "python_tool",
]

_MODULES = {
    name: module
    for module, names in {
        "actors.layers.graphs.rules.shape": "EdgeReason",
        "actors.layers.listing.messages": "PendingCall",
        "actors.layers.recording.messages": "RecordedCall",
        "actors.layers.spending.messages": "UsageReport UsageSums UsedTurn",
        "actors.layers.stores.batch": "BatchInfo BatchItem CaseTurn",
        "actors.layers.stores.schedule": "Schedule",
        "actors.messages.protocol.log": "CallAttempt",
        "actors.messages.turn_info": "TurnInfo",
        "runtime.driver.ray_data": "RunTurns",
        "runtime.driver.runtime": "Runtime",
        "runtime.driver.scripts.inputs": "MapResult",
        "runtime.driver.scripts.questions": "Question",
        "runtime.driver.scripts.turn_map": "TurnMap",
        "runtime.driver.services.deployment": "RuntimeStatistics",
        "runtime.driver.services.outline": "AgentInfo",
        "runtime.driver.turns.description": "TurnDescription",
        "runtime.driver.turns.finding": "CallQuery TurnQuery",
        "runtime.driver.turns.reports": "BoardTask FlowBoard SelectionReason",
        "runtime.driver.turns.turn": "TaskResult Turn TurnResult",
        "runtime.frontends.console.lines": "event_lines",
        "runtime.integrations.code.tool": "python_tool",
        "runtime.integrations.openapi.auth": "ApiKeyAuth BasicAuth BearerAuth",
        "runtime.integrations.openapi.tools": "OpenApiTools",
        "runtime.integrations.skills.toolset": "SkillToolset",
        "runtime.observability.logs.kept": "DeploymentEvent LogLine",
        "runtime.settings": "Settings",
    }.items()
    for name in names.split()
}


count_as_own(__file__)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        refuse_other_name("runtime", name)
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
