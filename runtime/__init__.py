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
    "AgentInfo": "runtime.driver.services.outline",
    "ApiKeyAuth": "runtime.integrations.openapi.auth",
    "BasicAuth": "runtime.integrations.openapi.auth",
    "BatchInfo": "actors.layers.stores.batch",
    "BatchItem": "actors.layers.stores.batch",
    "CallQuery": "runtime.driver.turns.finding",
    "CaseTurn": "actors.layers.stores.batch",
    "BearerAuth": "runtime.integrations.openapi.auth",
    "CallAttempt": "actors.messages.protocol.log",
    "DeploymentEvent": "runtime.observability.logs.kept",
    "EdgeReason": "actors.layers.graphs.rules.shape",
    "BoardTask": "runtime.driver.turns.reports",
    "FlowBoard": "runtime.driver.turns.reports",
    "LogLine": "runtime.observability.logs.kept",
    "MapResult": "runtime.driver.scripts.inputs",
    "OpenApiTools": "runtime.integrations.openapi.tools",
    "PendingCall": "actors.layers.listing.messages",
    "Question": "runtime.driver.scripts.questions",
    "RecordedCall": "actors.layers.recording.messages",
    "RunTurns": "runtime.driver.ray_data",
    "Runtime": "runtime.driver.runtime",
    "RuntimeStatistics": "runtime.driver.services.deployment",
    "SelectionReason": "runtime.driver.turns.reports",
    "Schedule": "actors.layers.stores.schedule",
    "Settings": "runtime.settings",
    "SkillToolset": "runtime.integrations.skills.toolset",
    "TaskResult": "runtime.driver.turns.turn",
    "Turn": "runtime.driver.turns.turn",
    "TurnDescription": "runtime.driver.turns.description",
    "TurnInfo": "actors.messages.turn_info",
    "TurnMap": "runtime.driver.scripts.turn_map",
    "TurnQuery": "runtime.driver.turns.finding",
    "TurnResult": "runtime.driver.turns.turn",
    "UsageReport": "actors.layers.spending.messages",
    "UsageSums": "actors.layers.spending.messages",
    "UsedTurn": "actors.layers.spending.messages",
    "event_lines": "runtime.frontends.console.lines",
    "python_tool": "runtime.integrations.code.tool",
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
