"""The agent that a language model drives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any, ClassVar, Literal
from weakref import WeakValueDictionary

import pydantic
from pydantic import BaseModel, Field, field_validator

from actors.definitions.agents.agent_tool import AgentTool
from actors.definitions.agents.base import Agent, Callback
from actors.definitions.tools.base import Tool
from actors.definitions.tools.function import FunctionTool
from actors.definitions.tools.json_schema import json_schema
from actors.interfaces.model import Model
from actors.rules.prompt.arrange import IncludeContents
from actors.rules.routing.transfer import TRANSFER_TOOL


class LlmAgent(Agent):
    """An agent whose steps a model decides.

    Attributes:
        model: a name such as "gemini-2.5-flash", or a Model; "" takes the model of the nearest LLM agent above.
        instruction: a template (`{key}`, `{artifact.file}`), or a function of a ReadonlyContext, which is not templated.
        global_instruction: the same, on the root, for all agents of the tree.
        tools: tools, or plain functions, which become FunctionTools.
        disallow_transfer_to_parent, disallow_transfer_to_peers: whom it may not hand the conversation to.
        include_contents: "none" shows the model only the newest message instead of the conversation.
        output_key: the state key under which its final answer is stored.
        output_schema: a pydantic model that its answer has to fit.
        input_schema: a pydantic model of its arguments when it is used as a tool.
        generate_content_config: google-genai's GenerateContentConfig, or its fields as a dictionary.
        before_model_callback: called with (CallbackContext, LlmRequest); a response returned replaces the model call.
        after_model_callback: called with (CallbackContext, LlmResponse); a response returned replaces it.
        on_model_error_callback: called with (CallbackContext, LlmRequest, error); a response returned replaces the error.
        before_tool_callback: called with (tool, args, ToolContext); a result returned replaces the tool call.
        after_tool_callback: called with (tool, args, ToolContext, result); a result returned replaces it.
        on_tool_error_callback: called with (tool, args, ToolContext, error); a result returned replaces the error.
    """

    kind: ClassVar[Literal["llm"]] = "llm"

    model: Any = ""
    instruction: str | Callable[..., Any] = ""
    global_instruction: str | Callable[..., Any] = ""
    tools: Sequence[Any] = ()
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    include_contents: IncludeContents = "default"
    output_key: str | None = None
    output_schema: type[BaseModel] | None = None
    input_schema: type[BaseModel] | None = None
    generate_content_config: Any = Field(default_factory=dict)
    before_model_callback: Callback = None
    after_model_callback: Callback = None
    on_model_error_callback: Callback = None
    before_tool_callback: Callback = None
    after_tool_callback: Callback = None
    on_tool_error_callback: Callback = None

    @field_validator("model")
    @classmethod
    def _answers(cls, model: Any) -> Any:
        if not isinstance(model, str | Model):
            raise ValueError(f"must be a model's name or an object with a generate method, not {type(model).__name__}")
        return model

    @field_validator("tools")
    @classmethod
    def _as_tools(cls, given: Sequence[Any]) -> tuple[Tool, ...]:
        tools = tuple(as_tool(tool) for tool in given)
        names: set[str] = set()
        for tool in tools:
            if not tool.name:
                raise ValueError(f"a {type(tool).__name__} has no name")
            if tool.name == TRANSFER_TOOL:
                raise ValueError(f"the name {TRANSFER_TOOL!r} is taken by the tool that agents get for their transfers")
            if tool.require_confirmation and tool.is_long_running:
                raise ValueError(f"tool {tool.name!r}: the answer to a call is the user's consent or a late result, not both")
            if tool.name in names:
                raise ValueError(f"two tools are called {tool.name!r}")
            names.add(tool.name)
        return tools

    @field_validator("generate_content_config")
    @classmethod
    def _as_fields(cls, config: Any) -> dict[str, Any]:
        if config is None:
            return {}
        if isinstance(config, BaseModel):
            return config.model_dump(exclude_none=True, mode="json")
        if not isinstance(config, dict):
            raise ValueError(f"must be a GenerateContentConfig or a dictionary of its fields, not {type(config).__name__}")
        return config

    @pydantic.model_validator(mode="after")
    def _says_each_thing_once(self) -> LlmAgent:
        for field in ("system_instruction", "tools", "response_schema", "response_json_schema"):
            if field in self.generate_content_config:
                meant = {"system_instruction": "instruction", "tools": "tools"}.get(field, "output_schema")
                raise ValueError(f"generate_content_config.{field}: give it as the agent's {meant}")
        return self

    def alone(self) -> LlmAgent:
        """The same definition without its children, and without models, which may come from an agent above."""
        tools = tuple(tool.alone() if isinstance(tool, AgentTool) else tool for tool in self.tools)
        return self.model_copy(update={"sub_agents": (), "model": "", "tools": tools})

    @cached_property
    def output_json_schema(self) -> dict[str, Any] | None:
        """The JSON schema of `output_schema`."""
        return json_schema(self.output_schema) if self.output_schema is not None else None


_TOOLS: WeakValueDictionary[tuple[int, str, str | None], FunctionTool] = WeakValueDictionary()
"""The tools of plain functions, as long as an agent has them; by the function, which its tool keeps alive."""


def as_tool(given: Any) -> Tool:
    """A tool, or a plain function as one. Raises ValueError."""
    if isinstance(given, Tool):
        return given
    if isinstance(given, FunctionType):
        # Its signature need not be looked at again for each of thousands of agents: that takes 0.5 ms and 20 kB.
        known = _TOOLS.get(which := (id(given), given.__name__, given.__doc__))
        if known is None:
            known = _TOOLS[which] = FunctionTool(given)
        return known
    if callable(given):
        return FunctionTool(given)
    raise ValueError(f"a tool must be a Tool or a function, not {type(given).__name__}")
