"""What programs pass to requests: numbers, texts, messages, state and options of turns.

A wrong one is refused by its name before anything is sent.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol, cast

from actors.errors import InvalidMessageError, NotEncodableError, RequestError
from actors.messages.codec import from_plain
from actors.messages.config import BUDGETS, DEFAULT_RUN_CONFIG, Budget, RunConfig
from actors.messages.content import Content, plain_of_genai
from actors.messages.json_types import JsonMapping, JsonObject
from actors.rules.checks.ids import printable
from actors.rules.checks.values import stored_delta

MAX_INTEGER = 2**63 - 1
"""The largest whole number that stores can compare with."""


def checked_number(what: str, value: object, least: int = 0) -> int:
    """The value, if it is a whole number that is not less than `least`, and that stores can hold.

    Args:
        what: the name of the argument, for the error: "after_seq".

    Raises:
        RequestError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"{what} must be a whole number from {least} on, not {printable(value)!r}")
    if value > MAX_INTEGER:
        raise RequestError(f"{what} must be at most {MAX_INTEGER}, not {printable(value)!r}")
    return int(value)


def checked_text(what: str, value: object) -> str:
    """The value, if it is a text. Raises RequestError."""
    if not isinstance(value, str):
        raise RequestError(f"{what} must be a text, not {printable(value)!r}")
    return str.__str__(value)


def checked_time(what: str, value: object) -> float:
    """The value, if it is a time in seconds since the epoch. Raises RequestError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise RequestError(f"{what} must be a time in seconds since the epoch, not {printable(value)!r}")
    return float(value)


def checked_age(what: str, value: object) -> float:
    """The value in seconds, if it is a time span above zero. Raises RequestError."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise RequestError(f"{what} must be a timedelta above zero, or a number of seconds, not {printable(value)!r}")
    return float(seconds)


def checked_choice(what: str, value: object, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices. Raises RequestError."""
    if not isinstance(value, str) or value not in choices:
        raise RequestError(f"{what} must be one of {', '.join(choices)}, not {printable(value)!r}")
    return str.__str__(value)


def to_content(message: Any) -> Content:
    """The message of a turn: a text, a Content, its dictionary, or a google.genai Content. Raises InvalidMessageError."""
    if isinstance(message, str):
        return Content.of_text(message)
    if isinstance(message, Content):
        return message
    if isinstance(message, Mapping):
        return Content.from_dict(message)
    if message is None:
        raise InvalidMessageError("message has no parts: it is None")
    if hasattr(message, "parts") and hasattr(message, "model_dump"):
        try:
            return from_plain(Content, plain_of_genai(message), "message")
        except (AttributeError, TypeError) as error:
            raise InvalidMessageError(f"message is no google.genai Content: {error}") from error
    raise InvalidMessageError(
        "message must be a text, a Content, a dictionary with the fields of one, or a google.genai Content, "
        f"not {type(message).__name__}"
    )


def has_function_responses(content: Content) -> bool:
    """True when a message answers calls of agents. Raises InvalidMessageError when its parts are no Parts."""
    try:
        return any(content.function_responses())
    except (AttributeError, TypeError) as error:
        # Constructors check no types.
        raise InvalidMessageError(f"message must have a list of Parts: {error}") from error


def to_state(state: JsonMapping | None) -> JsonObject:
    """A copy of state, or of changes of it; {} for None.

    Raises NotEncodableError when it is no mapping, or would not come back from the store as it is.
    """
    if state is not None and not isinstance(state, Mapping):
        raise NotEncodableError(type(state).__name__, "state is a mapping of keys")
    return stored_delta(state) if state else {}


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
