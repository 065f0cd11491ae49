"""JSON objects whose keys are attributes too, so that callbacks written for google-genai's types find what they know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from actors.errors.hints import did_you_mean
from actors.messages.json_types import JsonObject, JsonValue

_INSTRUCTION = "system_instruction"

CONFIG_FIELDS = frozenset(
    [
        "audio_timestamp",
        "audio_transcription_config",
        "automatic_continuation",
        "automatic_function_calling",
        "cached_content",
        "candidate_count",
        "continuation_token",
        "enable_enhanced_civic_answers",
        "frequency_penalty",
        "generation_output_config",
        "http_options",
        "image_config",
        "labels",
        "logprobs",
        "max_output_tokens",
        "media_resolution",
        "model_armor_config",
        "model_selection_config",
        "presence_penalty",
        "response_json_schema",
        "response_logprobs",
        "response_mime_type",
        "response_modalities",
        "response_schema",
        "routing_config",
        "safety_settings",
        "seed",
        "service_tier",
        "should_return_http_response",
        "speech_config",
        "stop_sequences",
        "store",
        "system_instruction",
        "temperature",
        "thinking_config",
        "tool_config",
        "tools",
        "top_k",
        "top_p",
    ]
)
"""The fields of google-genai's GenerateContentConfig, newest and oldest ones. Other models may know further ones."""


class Fields(JsonObject):
    """A JSON object with its keys as attributes. A key that is missing is None, objects inside have attributes as well.

    An attribute in snake_case stands for the same key in camelCase, if the object has that.
    """

    def __getattr__(self, name: str) -> JsonValue:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        key = self._key(name)
        value = self.get(key)
        if type(value) is dict:
            value = self[key] = Fields(value)
        elif type(value) is list:
            # In place: what a caller appends has to arrive.
            value[:] = [Fields(each) if type(each) is dict else each for each in value]
        return value

    def __setattr__(self, name: str, value: JsonValue) -> None:
        self[self._key(name)] = value

    def __delattr__(self, name: str) -> None:
        self.pop(self._key(name), None)

    def _key(self, name: str) -> str:
        camel = _camel(name)
        return camel if camel in self and name not in self else name


class GenerateContentConfig(Fields):
    """The configuration of one model call, under the names of google-genai's GenerateContentConfig.

    It is a dictionary, and every key is an attribute: `config.temperature = 0.2` and `config["temperature"] = 0.2` do the same.
    A field that is not set is None. Values may be google-genai's objects; the model gets them as plain JSON.

    `system_instruction` is the whole system instruction. `tools` holds the service's own tools, such as `{"google_search": {}}`;
    functions are in `LlmRequest.tools`.
    """

    def misspelt(self) -> Iterator[str]:
        """A sentence for each field that is none of google-genai's, and nearly one: what else a model knows is its own."""
        for name in self.keys() - CONFIG_FIELDS - {_camel(each) for each in CONFIG_FIELDS}:
            if hint := did_you_mean(name, CONFIG_FIELDS):
                yield f"there is no field {name!r}.{hint}"

    @classmethod
    def of(cls, given: object) -> GenerateContentConfig:
        """A configuration of its own with what was given.

        Args:
            given: a dictionary, google-genai's GenerateContentConfig, or None. The system instruction becomes a text.

        Raises:
            TypeError: it is none of these, or the system instruction is no text.
        """
        if isinstance(given, Mapping):
            fields = dict(given)
        elif given is None or hasattr(given, "model_fields_set"):
            fields = {
                name: value for name in getattr(given, "model_fields_set", ()) if (value := getattr(given, name)) is not None
            }
        else:
            raise TypeError(f"a config must be a GenerateContentConfig or a dictionary of its fields, not {type(given).__name__}")
        converted = {name: as_json(value) for name, value in fields.items() if name != _INSTRUCTION}
        if fields.get(_INSTRUCTION) is not None:
            converted[_INSTRUCTION] = instruction_text(fields[_INSTRUCTION])
        return cls(converted)


def instruction_text(given: object) -> str:
    """The text of a system instruction: of a text, or of a content, ours or google-genai's; "" of None.

    Raises:
        TypeError: it is something else, or has parts without text.
    """
    if given is None or isinstance(given, str):
        return given or ""
    parts = given if isinstance(given, list | tuple) else (given.parts or ()) if hasattr(given, "parts") else [given]
    texts = [part if isinstance(part, str) else getattr(part, "text", None) for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a system instruction must be a text, or a Content whose parts are texts, not {type(given).__name__}")
    return "\n\n".join(filter(None, texts))


def as_json(value: object) -> JsonValue:
    """A copy of a value with pydantic models in it as JSON objects without None, and enums as values."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
