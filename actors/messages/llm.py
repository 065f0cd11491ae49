"""The request of an LLM agent to a model with its configuration, and the response.

The configuration is a JSON object whose keys are attributes too, so that callbacks written for google-genai's types find what
they know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from actors.errors.hints import CheckedStruct, did_you_mean
from actors.messages.content import Answer, Content
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.shown import Shown

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


class FunctionDeclaration(Shown, CheckedStruct, frozen=True, kw_only=True):
    """A tool as the model sees it. `parameters` is a JSON schema of an object; None for a tool without arguments."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None


class Declared(Protocol):
    """A tool, as `LlmRequest.append_tools` takes it: `actors.definitions.tools.base.Tool`."""

    name: str

    def declaration(self) -> FunctionDeclaration | None:
        """The tool as the model sees it; None for one that is never called."""
        ...


class LlmRequest(Shown, msgspec.Struct, kw_only=True, dict=True):
    """One model call. A before_model callback may change it in place.

    Attributes:
        model: the name of the model; "" for a model object without one.
        agent: the agent that calls.
        contents: the conversation, oldest first. Callbacks and tools get a list of the request's own, and may change it and its
            contents in place; what a model gets may be shared with other requests.
        tools: the declarations of all functions.
        config: fields of google-genai's GenerateContentConfig, as a dictionary whose keys are attributes too. A dictionary or an
            object of google-genai that is assigned is converted before the model is called.
        output_schema: the JSON schema that the response has to fit; None for free text.

    Raises:
        TypeError: `config` is no configuration.
    """

    model: str = ""
    agent: str = ""
    contents: list[Content] = []
    tools: Sequence[FunctionDeclaration] = ()
    config: JsonValue = {}
    output_schema: JsonObject | None = None

    def __post_init__(self) -> None:
        self._own_config()

    def _own_config(self) -> GenerateContentConfig:
        """The configuration, converted if another kind was assigned."""
        config = self.config
        if type(config) is not GenerateContentConfig:
            config = self.config = GenerateContentConfig.of(config)
        return config

    @property
    def system_instruction(self) -> str:
        """The system instruction, "" without one: the text of `config.system_instruction`. Setting it sets that."""
        return instruction_text(self._own_config().get("system_instruction"))

    @system_instruction.setter
    def system_instruction(self, text: str) -> None:
        self._own_config()["system_instruction"] = text

    @property
    def tools_dict(self) -> dict[str, Declared]:
        """The tools that may be called in the response, by name. Only callbacks and tools get requests that have them."""
        tools: dict[str, Declared] = vars(self).setdefault("_tools_dict", {})
        return tools

    def append_instructions(self, instructions: Sequence[str] | Content) -> None:
        """Add to the end of the system instruction, with an empty line before each text.

        Args:
            instructions: texts, or a content of texts, ours or google-genai's.

        Raises:
            TypeError: it is something else.
        """
        if isinstance(instructions, str):
            raise TypeError(f"append_instructions takes a list of texts: write append_instructions([{instructions!r:.40}])")
        texts = [instruction_text(each) for each in instructions] if isinstance(instructions, list | tuple) else None
        added = texts if texts is not None else [instruction_text(instructions)]
        self.system_instruction = "\n\n".join(filter(None, [self.system_instruction, *added]))

    def set_output_schema(self, output_schema: Any = None, *, base_model: Any = None) -> None:
        """Have the response fit a type.

        Args:
            output_schema: a pydantic model or another type that pydantic validates, or a JSON schema.
            base_model: the same, by an older name of ADK's.

        Raises:
            TypeError: it is neither.
        """
        given = output_schema if output_schema is not None else base_model
        if isinstance(given, dict):
            self.output_schema = given
            return
        # Processes that only send messages need no pydantic.
        import pydantic

        try:
            self.output_schema = pydantic.TypeAdapter(given).json_schema()
        except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError) as error:
            raise TypeError(f"set_output_schema takes a pydantic model, another type or a JSON schema, not {given!r}") from error

    def append_tools(self, tools: Sequence[Declared]) -> None:
        """Give the model more tools for this call. If it calls them, they are run.

        Args:
            tools: Tool objects. One replaces the tool that has the same name.

        Raises:
            TypeError: one is no Tool.
        """
        for tool in tools:
            if not hasattr(tool, "declaration"):
                raise TypeError(f"append_tools takes Tool objects, not {type(tool).__name__}: make a FunctionTool of a function")
            declared = tool.declaration()
            if declared is not None:
                self.tools = [*(each for each in self.tools if each.name != tool.name), declared]
                self.tools_dict[tool.name] = tool


class LlmResponse(Answer, Shown, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A response of a model, or with `partial` a part of one that is streamed.

    Attributes:
        content: what the model said or called; None when it returned nothing.
        partial: True for a part of a streamed response; the complete one follows.
        finish_reason: why the model stopped, as its service sent it.
        error_code: the reason why there is no content, when the service gave one.
        error_message: the service's explanation.
        usage: tokens of the call; None when the service did not say.
        model_version: the model that has answered, where one of several did: its name for limits and prices. None: the one that
            was asked for.
        grounding_metadata: what a search of the service's own found for the answer, as the service sent it: a JSON object with
            camelCase keys. It is stored on the event of the response.
        custom_metadata: a JSON object that is stored on the event of the response.
    """

    content: Content | None = None
    partial: bool = False
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = None
    model_version: str | None = None
    grounding_metadata: JsonObject | None = None
    custom_metadata: JsonObject | None = None

    @property
    def usage_metadata(self) -> Usage | None:
        """The same as `usage`, by ADK's name."""
        return self.usage
