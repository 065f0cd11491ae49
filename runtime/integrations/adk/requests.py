"""Requests to models: raygrove's as google-adk's, and what user code changed in one carried back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.models.llm_request import LlmRequest as AdkRequest
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from pydantic import ConfigDict, SerializerFunctionWrapHandler, field_serializer

from actors.definitions.schemas import output_type
from actors.messages.content import Content
from actors.messages.drafts import ContentDrafts, LazyList, own_contents
from actors.messages.json_types import JsonObject
from actors.messages.llm import Declared, FunctionDeclaration, LlmRequest
from runtime.integrations.adk.contents import genai_content, own_content

_OWN_FIELDS = {"system_instruction", "tools", "response_schema", "response_json_schema"}
"""Fields of a GenerateContentConfig that raygrove's request has beside its config."""

_GIVEN_BESIDE = ("tools", "system_instruction")
"""Fields of raygrove's config that are converted by themselves."""

_NO_CONFIG, _NO_LIVE = types.GenerateContentConfig(), types.LiveConnectConfig()
"""Copied for each request, which takes a third of the time of making one."""

_UNCHANGING = (str, int, float, bool)


class RunRequest(AdkRequest):  # type: ignore[misc]
    """ADK's request, whose contents are converted when they are looked at."""

    # Building the schema takes 80 ms, and only a request that is dumped needs it.
    model_config = ConfigDict(defer_build=True)

    @field_serializer("contents", mode="wrap")
    def _whole(self, contents: Any, serialize: SerializerFunctionWrapHandler) -> Any:
        # Pydantic reads past the methods of a list.
        return serialize(list(contents))


class RequestView:
    """A request of raygrove as ADK's, and back.

    Its contents are converted when user code looks at them: most callbacks read none, or the last, of a long conversation.

    Args:
        lend: makes raygrove's tool of one that user code has appended; without it they are declared only.
        schema: the type that the answer has to fit, if the request's schema was made of it.
    """

    def __init__(
        self,
        ours: LlmRequest,
        lend: Callable[[BaseTool], Declared] | None = None,
        schema: Any = None,
    ) -> None:
        self._ours = ours
        schema = _schema(ours, schema)
        self._tools = {
            name: adk_tool(tool) for name, tool in ({tool.name: tool for tool in ours.tools} | ours.tools_dict).items()
        }
        self._lend = lend
        # Looking at a draft makes it one, and most callbacks look at few contents.
        contents = ours.contents.settled() if isinstance(ours.contents, ContentDrafts) else own_contents(ours.contents)
        self._contents = LazyList(contents, Content, genai_content)
        config = _config(ours, schema)
        self._before = _as_it_is(config, ours, schema)
        # Validating would convert the contents, and build the schema.
        self.adk = RunRequest.model_construct(
            model=ours.model or None,
            contents=self._contents,
            config=config,
            live_connect_config=_NO_LIVE.model_copy(),
            tools_dict=dict(self._tools),
        )

    async def fold_instructions(self) -> None:
        """Put what a tool of ADK has kept for the end of the instructions there, by ADK's own code."""
        if self.adk._dynamic_instructions:
            # It takes a third of a second to import, and few tools need it.
            from google.adk.flows.llm_flows.prompt._dynamic_instructions import finalize_dynamic_instructions

            await finalize_dynamic_instructions(None, self.adk)

    def carry_back(self) -> None:
        """Take over into raygrove's request what has changed in ADK's."""
        ours, request = self._ours, self.adk
        ours.model = request.model or ours.model
        if request.contents is not self._contents or not self._contents.is_as_given():
            self._carry_contents(request.contents)
        for name, tool in request.tools_dict.items():
            if self._lend is not None and tool is not self._tools.get(name):
                ours.tools_dict[name] = self._lend(tool)
        config, before = request.config, self._before
        if config == before:
            return
        others = [tool for tool in config.tools or [] if not getattr(tool, "function_declarations", None)]
        fields = config.model_dump(mode="json", exclude_none=True, exclude=_OWN_FIELDS)
        if others:
            fields["tools"] = [_dumped(tool) for tool in others]
        self._carry_schema(config, fields)
        fields["system_instruction"] = _text(config.system_instruction)
        ours.config = fields
        ours.tools = [
            own_declaration(declared)
            for tool in config.tools or []
            for declared in getattr(tool, "function_declarations", None) or ()
        ]

    def _carry_schema(self, config: types.GenerateContentConfig, fields: JsonObject) -> None:
        ours, given = self._ours, config.response_schema
        if given is self._before.response_schema or given == self._before.response_schema:
            if ours.output_schema is None and "response_schema" in ours.config:
                fields["response_schema"] = ours.config["response_schema"]
        elif given is None or isinstance(given, types.Schema):
            ours.output_schema = None
            if given is not None:
                fields["response_schema"] = _dumped(given)
        else:
            ours.set_output_schema(given)
        if config.response_json_schema is not None:
            ours.output_schema = None
            fields["response_json_schema"] = config.response_json_schema
        if ours.output_schema is not None:
            fields.pop("response_mime_type", None)

    def _carry_contents(self, given: list[Any]) -> None:
        contents = given.restored(own_content) if isinstance(given, LazyList) else list(map(own_content, given))
        if isinstance(self._ours.contents, ContentDrafts):
            # It knows which of them are messages already.
            self._ours.contents[:] = contents
        else:
            self._ours.contents = contents


def _schema(ours: LlmRequest, schema: Any) -> Any:
    """The type that the answer has to fit, else its JSON schema; None for free text."""
    if ours.output_schema is None or schema is None:
        return ours.output_schema
    # A callback may have set another one.
    return schema if output_type(schema).json_schema == ours.output_schema else ours.output_schema


def _config(ours: LlmRequest, schema: Any) -> types.GenerateContentConfig:
    given = {name: value for name, value in ours.config.items() if name not in _GIVEN_BESIDE}
    config = types.GenerateContentConfig(**given) if given else _NO_CONFIG
    more: dict[str, Any] = {"system_instruction": ours.system_instruction or None}
    more["tools"] = [*_functions(ours.tools), *_other_tools(ours.config)] or None
    if schema is not None:
        # Where ADK puts it, and its models look for it.
        more["response_schema"] = schema
        more["response_mime_type"] = config.response_mime_type or "application/json"
    return config.model_copy(update=more)


def _as_it_is(config: types.GenerateContentConfig, ours: LlmRequest, schema: Any) -> types.GenerateContentConfig:
    """The same configuration, which does not change with it."""
    if all(value is None or isinstance(value, _UNCHANGING) for value in vars(config).values()):
        return config.model_copy()
    # Made anew in place of a deep copy, which costs more.
    return _config(ours, schema)


def adk_tool(tool: Any) -> BaseTool:
    """The BaseTool of a tool; one of raygrove's own, such as a transfer, or one that is only declared, by its name."""
    return getattr(tool, "adk", None) or BaseTool(name=tool.name, description=tool.description)


def own_declaration(given: types.FunctionDeclaration) -> FunctionDeclaration:
    """A declaration of google-genai as raygrove's: its parameters as JSON schema."""
    schema: Any = given.parameters_json_schema
    if schema is None and given.parameters is not None:
        schema = given.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    if schema is not None and not isinstance(schema, dict):
        schema = schema.model_json_schema()
    has_fields = isinstance(schema, dict) and schema.get("properties")
    return FunctionDeclaration(
        name=given.name or "", description=given.description or "", parameters=schema if has_fields else None
    )


def _functions(declared: Any) -> list[types.Tool]:
    functions = [
        types.FunctionDeclaration(name=each.name, description=each.description, parameters_json_schema=each.parameters)
        for each in declared
    ]
    return [types.Tool(function_declarations=functions)] if functions else []


def _other_tools(config: JsonObject) -> list[types.Tool]:
    return [types.Tool.model_validate(tool) for tool in config.get("tools", ())]


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def _text(instruction: Any) -> str:
    """The text of a system instruction, in whatever form google-genai takes it."""
    if instruction is None or isinstance(instruction, str):
        return instruction or ""
    if isinstance(instruction, list):
        return "\n\n".join(filter(None, map(_text, instruction)))
    if isinstance(instruction, types.Content):
        return _text(instruction.parts)
    return getattr(instruction, "text", None) or ""
