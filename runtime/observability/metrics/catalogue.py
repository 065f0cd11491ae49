"""The histograms of a deployment, by the conventions for generative AI: each name, unit, label and bound, once.

OpenTelemetry's exporter takes the names as they are, those of Prometheus and Ray with underscores.
"""

from __future__ import annotations

from typing import NamedTuple

_SECONDS = tuple(0.01 * 2**exponent for exponent in range(14))
_CHUNK_SECONDS = tuple(0.001 * 2**exponent for exponent in range(14))
_TOKENS = tuple(float(4**exponent) for exponent in range(14))
_CALLS = (0.0, *(float(2**exponent) for exponent in range(10)))

_MODEL = "gen_ai.request.model"
_ERROR = "error.type"


class Metric(NamedTuple):
    """A histogram.

    Attributes:
        unit: as OpenTelemetry writes it: `s`, or a number of `{call}` or `{token}`.
        what: describes it.
        bounds: of its buckets; a value that is equal belongs to the bucket.
        labels: what values of one process differ by. Spans and OpenTelemetry's histograms have more attributes.
    """

    name: str
    unit: str
    what: str
    bounds: tuple[float, ...] = _SECONDS
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name with underscores, and the unit if it is one of Prometheus."""
        return underscored(self.name) + ("_seconds" if self.unit == "s" else "")


def underscored(name: str) -> str:
    """The name of a metric or label as Prometheus has it."""
    return name.replace(".", "_")


TURN = Metric("gen_ai.workflow.duration", "s", "Duration of turns.", labels=(_ERROR,))
WAIT = Metric("raygrove.turn.wait", "s", "Time from the request for a turn to its beginning.")
RUN = Metric("gen_ai.invoke_agent.duration", "s", "Duration of agents' runs.")
CALLS_OF_MODELS = Metric("gen_ai.invoke_agent.inference_calls", "{call}", "Model calls of an agent's run.", _CALLS)
CALLS_OF_TOOLS = Metric("gen_ai.invoke_agent.tool_calls", "{call}", "Tool calls of an agent's run.", _CALLS)
MODEL_CALL = Metric("gen_ai.client.operation.duration", "s", "Duration of model calls.", labels=(_MODEL, _ERROR))
FIRST_CHUNK = Metric(
    "gen_ai.client.operation.time_to_first_chunk", "s", "Time to the first part of a streamed answer.", labels=(_MODEL,)
)
NEXT_CHUNK = Metric(
    "gen_ai.client.operation.time_per_output_chunk", "s", "Time between parts of a streamed answer.", _CHUNK_SECONDS, (_MODEL,)
)
TOKENS = Metric("gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS, (_MODEL, "gen_ai.token.type"))
TOOL_CALL = Metric("gen_ai.execute_tool.duration", "s", "Duration of tool calls.", labels=("gen_ai.tool.name", _ERROR))

HISTOGRAMS = (TURN, WAIT, RUN, CALLS_OF_MODELS, CALLS_OF_TOOLS, MODEL_CALL, FIRST_CHUNK, NEXT_CHUNK, TOKENS, TOOL_CALL)
"""Every histogram."""
