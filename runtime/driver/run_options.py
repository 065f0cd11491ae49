"""Options of a turn as programs give them."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from actors.errors import RequestError
from actors.messages.config import BUDGETS, DEFAULT_RUN_CONFIG, Budget, RunConfig


class AdkRunConfig(Protocol):
    """A RunConfig of google-adk."""

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that were given."""


RunOptions = RunConfig | Mapping[str, object] | AdkRunConfig
"""Options of a turn as programs give them: a RunConfig, or a dictionary of its fields, or a RunConfig of google-adk."""

_OF_ADK = ("streaming_mode", "max_llm_calls", "save_input_blobs_as_artifacts", "custom_metadata", "model_input_context")

_INSTEAD_OF_ADK = {
    "labels": "give them in generate_content_config of the agents",
    "http_options": "give them in generate_content_config of the agents",
    "get_session_config": "leave it out, since a turn reads what it needs of the log only",
    "tool_thread_pool_config": "leave it out, since sync tools run in threads",
    "telemetry": "see docs/telemetry.md",
}


def run_config_of(given: RunOptions | None) -> RunConfig:
    """The options of a turn; the defaults for None.

    Raises:
        RequestError: it is neither a RunConfig nor a dictionary, or a field of the dictionary is unknown or wrong, or one of
            google-adk's has no counterpart.
    """
    if given is None:
        return DEFAULT_RUN_CONFIG
    if isinstance(given, RunConfig):
        return given
    if type(given).__module__.startswith("google.adk."):
        return _of_adk(cast("AdkRunConfig", given))
    if not isinstance(given, Mapping):
        raise RequestError(f"run_config is a RunConfig, or a dictionary of its fields, not {reprlib.repr(given)}")
    try:
        fields = dict(cast("Mapping[str, Any]", given))
        fields.update((name, Budget(**fields[name])) for name in BUDGETS if isinstance(fields.get(name), Mapping))
        if isinstance(agents := fields.get("agent_budgets"), Mapping):
            fields["agent_budgets"] = {
                name: Budget(**each) if isinstance(each, Mapping) else each for name, each in agents.items()
            }
        return RunConfig(**fields)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from None


def _of_adk(given: AdkRunConfig) -> RunConfig:
    # Read past the attributes, of which some warn that they are deprecated.
    fields, defaults = vars(given), vars(type(given)())
    for name in sorted(given.model_fields_set):
        if name not in _OF_ADK and fields[name] != defaults[name]:
            instead = _INSTEAD_OF_ADK.get(name, "leave it out")
            raise RequestError(f"RunConfig.{name} of google-adk is not carried over: {instead}")
    mode = getattr(fields["streaming_mode"], "value", fields["streaming_mode"])
    if mode not in (None, "none", "sse"):
        raise RequestError(f"RunConfig.streaming_mode {mode!r} of google-adk is not carried over: only SSE and NONE are")
    # Older versions do not have them all.
    kept = {name: fields[name] for name in _OF_ADK[1:] if name in fields}
    try:
        return RunConfig(streaming=mode or "none", **kept)
    except ValueError as error:
        raise RequestError(str(error)) from None
