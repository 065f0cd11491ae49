"""The request of an LLM agent to a model, and the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from actors.errors.hints import CheckedStruct
from actors.messages.content import Answer, Content
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.fields import GenerateContentConfig, instruction_text
from actors.messages.shown import Shown


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
