"""Which interceptors the runs of agents have, and their order: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Sequence

from actors.behaviours.interceptor import RunInterceptor
from actors.behaviours.model_call import CallLimit, EmptyAnswers, FailedCalls
from actors.layers.background.tools import KnowsRuns
from actors.layers.callbacks import AfterModelCallbacks, BeforeModelCallbacks, EventHooks, ToolCallbacks
from actors.layers.compaction.interceptor import Compaction
from actors.layers.graphs.behaviour.tool_runs import ToolRuns
from actors.layers.limiter.client import LimiterClient, permits_of
from actors.layers.planning import Planning
from actors.layers.recording.recorder import CallRecorder
from actors.layers.spending.calls import BudgetQuestions, ModelBudgets, ToolBudgets
from actors.layers.steering.interrupts import InterruptsTools
from actors.layers.tracing import Tracing

INTERCEPTORS: Sequence[type[RunInterceptor]] = (
    EventHooks,
    BudgetQuestions,
    ToolBudgets,
    KnowsRuns,
    InterruptsTools,
    Planning,
    # Callbacks see one model call, however often it is repeated.
    BeforeModelCallbacks,
    AfterModelCallbacks,
    FailedCalls,
    EmptyAnswers,
    # The calls of summaries go through the interceptors from here on.
    Compaction,
    # A call without room is neither counted nor recorded.
    ModelBudgets,
    CallLimit,
    CallRecorder,
    ToolRuns,
    # The span of a model call has the wait for a permit, that of a tool call its callbacks.
    Tracing,
    ToolCallbacks,
)
"""The outermost first."""


def interceptors(limiter: LimiterClient | None) -> Sequence[type[RunInterceptor]]:
    """The interceptors of a process, with permits if the deployment limits models."""
    return INTERCEPTORS if limiter is None else (*INTERCEPTORS, permits_of(limiter))
