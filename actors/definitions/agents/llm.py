"""The agent that a language model drives, and its planner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, ClassVar, Literal, Never
from weakref import WeakValueDictionary

import msgspec
import pydantic
from pydantic import BaseModel, Field, field_validator

from actors.definitions.agents.agent_tools import DELEGATED, AskingTool, DelegateTool, as_delegate
from actors.definitions.agents.base import BaseAgent, Callback
from actors.definitions.schemas import OutputType, output_type
from actors.definitions.tools.base import BuiltInCodeExecutor, Tool, Toolset
from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.definitions.tools.function import FunctionTool
from actors.errors.hints import did_you_mean
from actors.errors.user_code import UserFunction
from actors.interfaces.model import definition_flaw
from actors.messages.content import Content, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm import GenerateContentConfig, LlmRequest, instruction_text
from actors.rules.checks.ids import flaw_of_name
from actors.rules.prompt.compiler import IncludeContents
from actors.rules.routing.transfer import TRANSFER_TOOL

Instruction = str | UserFunction
"""A template, or a function of a ReadonlyContext, sync or async, that returns the finished text."""


class BasePlanner(ABC):
    """Has a say in each request and each response of an agent: `LlmAgent(planner=…)`."""

    @abstractmethod
    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """Return what is added to the system instruction, or None."""

    @abstractmethod
    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> Sequence[Part] | None:
        """Return the parts that take the place of a response's, or None. The parts may be changed in place.

        Called for each complete response, after the after_model callbacks.
        """

    def partial_text(self, before: str, text: str) -> Sequence[Part]:
        """The parts in which a piece of a streamed response is shown; by default the text as it is.

        Args:
            before: all texts of the response so far.
            text: the piece.
        """
        return [Part(text=text)]

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Change a request, before the agent's tools do: add the instruction, and show the model its earlier thoughts."""
        instruction = self.build_planning_instruction(context, request)
        if instruction:
            request.append_instructions([instruction])
        request.contents = [_without_thoughts(content) for content in request.contents]


def _without_thoughts(content: Content) -> Content:
    """The content with its thoughts as ordinary texts: services leave out what is marked as a thought."""
    if not any(part.thought for part in content.parts):
        return content
    parts = [msgspec.structs.replace(part, thought=None) if part.thought else part for part in content.parts]
    return Content(role=content.role, parts=parts)


_CHANGES = frozenset({"append", "extend", "insert", "remove", "pop", "clear"})


class ToolTuple(tuple[Tool | Toolset, ...]):
    """The tools of an agent, in order. They cannot be changed, and say so."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Never:
        if name in _CHANGES:
            raise AttributeError(
                f"tools.{name}: an agent is fixed when it is defined, for its actor gets a copy of it. Another agent with more "
                "tools is agent.model_copy(update={'tools': [*agent.tools, …]})"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class LlmAgent(BaseAgent):
    """An agent whose steps a model decides.

    A callback may be sync or async, or a list of which the first result that is not None counts.

    Attributes:
        model: a name such as "gemini-2.5-flash", or an object with the method of `Model`. "", the default, takes the model of
            the nearest LLM agent above.
        instruction: a template, in which `{key}` stands for a value of the state, `{key?}` for one that may be missing, and
            `{artifact.file}` for the text of an artifact; or a function of a ReadonlyContext, whose result is used as it is.
        global_instruction: the same, on the root, for all agents of the tree.
        static_instruction: a text, or a Content of texts, that is no template and begins the system instruction, so that services
            can cache what is before the conversation. With it, `instruction` stands in the conversation, before the newest
            message. Default none.
        tools: Tool and Toolset objects, or plain functions, which become FunctionTools, or Graphs and FunctionNodes, to which
            it delegates calls; default none.
        disallow_transfer_to_parent: it may not hand the conversation to its parent; default False.
        disallow_transfer_to_peers: it may not hand the conversation to its siblings; default False.
        include_contents: "default" shows the model the conversation, "none" only the newest message and what follows it.
        mode: in a graph, "single_turn", the default there, answers its input once; "task" works on it with the user, for as many
            turns as it takes, until it calls `finish_task`; "chat" sees the whole conversation, and leads to no other node.
            Below an LLM agent the first two make it a delegate: the agent above calls it as a tool. Default None.
        output_key: the state key under which the final answer is stored; default None, for no key.
        output_schema: a type that the final answer has to fit: a pydantic model, list[Model], a TypedDict, a dataclass, dict,
            str, int or another that pydantic validates; or a JSON schema. Default None.
        input_schema: a pydantic model of the arguments when the agent is used as a tool; default None, for one text.
        planner: a BuiltInPlanner, a PlanReActPlanner or one of your own; default None.
        code_executor: BuiltInCodeExecutor() lets Gemini run code while it answers; default None.
        generate_content_config: google-genai's GenerateContentConfig, or its fields as a dictionary. Its `tools` are those
            that the service runs itself; functions belong into the agent's `tools`.
        interrupt_tools: True cancels the tools that run when a message of the user with `on_concurrent_turn="steer"` comes, or
            one of another agent: the model is called at once, and the call has an error as its result. A list of names does so
            with these tools only. A sync function runs on in its thread. Default False.
        before_model_callback: called with (CallbackContext, LlmRequest); an LlmResponse, Content or text that it returns
            replaces the model call.
        after_model_callback: called with (CallbackContext, LlmResponse); what it returns replaces the response.
        on_model_error_callback: called with (CallbackContext, LlmRequest, error); what it returns replaces the error.
        before_tool_callback: called with (tool, args, ToolContext); a result that it returns replaces the tool call.
        after_tool_callback: called with (tool, args, ToolContext, result); a result that it returns replaces the tool's.
        on_tool_error_callback: called with (tool, args, ToolContext, error); a result that it returns replaces the error.

    Raises:
        DefinitionError: a field is missing, unknown or wrong; the message names it.
    """

    kind: ClassVar[Literal["llm"]] = "llm"
    callback_points: ClassVar[Sequence[str]] = (
        *BaseAgent.callback_points,
        "before_model_callback",
        "after_model_callback",
        "on_model_error_callback",
        "before_tool_callback",
        "after_tool_callback",
        "on_tool_error_callback",
        "instruction",
        "global_instruction",
    )

    model: Any = ""
    instruction: Instruction = ""
    global_instruction: Instruction = ""
    tools: Sequence[Any] = ToolTuple()
    static_instruction: Any = ""
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    include_contents: IncludeContents = "default"
    mode: Literal["chat", "task", "single_turn"] | None = None
    output_key: str | None = None
    output_schema: Any = None
    input_schema: type[BaseModel] | None = None
    planner: BasePlanner | None = None
    code_executor: BuiltInCodeExecutor | None = None
    generate_content_config: Any = Field(default_factory=dict)
    interrupt_tools: bool | Sequence[str] = False
    before_model_callback: Callback = None
    after_model_callback: Callback = None
    on_model_error_callback: Callback = None
    before_tool_callback: Callback = None
    after_tool_callback: Callback = None
    on_tool_error_callback: Callback = None

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, model: object) -> object:
        wrong = None if isinstance(model, str) else definition_flaw(model)
        if wrong is not None:
            raise ValueError(wrong)
        return model

    @field_validator("tools", mode="before")
    @classmethod
    def _are_a_list(cls, given: object) -> object:
        if isinstance(given, Sequence) and not isinstance(given, str):
            return given
        name = getattr(given, "__name__", None) or getattr(given, "name", None)
        raise ValueError(
            f"it is a list: write tools=[{name}]" if isinstance(name, str) else f"it is a list of tools, not {given!r:.60}"
        )

    @field_validator("tools")
    @classmethod
    def _as_tools(cls, given: Sequence[object]) -> ToolTuple:
        tools = ToolTuple(tool if isinstance(tool, Toolset) else as_tool(tool) for tool in given)
        check_tools([tool for tool in tools if isinstance(tool, Tool)])
        return tools

    @field_validator("generate_content_config")
    @classmethod
    def _as_fields(cls, config: object) -> JsonObject:
        try:
            fields = GenerateContentConfig.of(config)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if wrong := list(fields.misspelt()):
            raise ValueError("; ".join(wrong))
        # The same dictionary of many agents stays one.
        return config if type(config) is dict and config == fields else dict(fields)

    @field_validator("static_instruction")
    @classmethod
    def _as_text(cls, instruction: object) -> str:
        try:
            return instruction_text(instruction)
        except TypeError as error:
            raise ValueError(str(error)) from error

    @pydantic.model_validator(mode="after")
    def _has_each_field_once(self) -> LlmAgent:
        config = self.generate_content_config
        for field in ("system_instruction", "response_schema", "response_json_schema"):
            if field in config:
                meant = {"system_instruction": "instruction"}.get(field, "output_schema")
                raise ValueError(f"generate_content_config.{field}: give it as the agent's {meant}")
        for tool in config.get("tools") or ():
            if not isinstance(tool, dict) or tool.get("function_declarations") or tool.get("functionDeclarations"):
                raise ValueError(
                    "generate_content_config.tools: give functions as the agent's tools, and leave the service's own here"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _delegates_to_children(self) -> LlmAgent:
        by_mode = [DelegateTool(each) for each in self.sub_agents if isinstance(each, LlmAgent) and each.mode in DELEGATED]
        # A copy has the tools of the agent that it is made of, among them those of its children.
        own = [tool for tool in self.tools if not (isinstance(tool, DelegateTool) and isinstance(tool.agent, LlmAgent))]
        if by_mode or len(own) < len(self.tools):
            check_tools([tool for tool in (*own, *by_mode) if isinstance(tool, Tool)])
            self.__dict__["tools"] = ToolTuple((*own, *by_mode))
        return self

    @pydantic.model_validator(mode="after")
    def _interrupts_what_it_has(self) -> LlmAgent:
        names = () if isinstance(self.interrupt_tools, bool) else self.interrupt_tools
        own = {tool.name for tool in self.tools if isinstance(tool, Tool)}
        if unknown := [name for name in names if name not in own and len(own) == len(self.tools)]:
            raise ValueError(f"interrupt_tools: the agent has no tool {unknown[0]!r}.{did_you_mean(unknown[0], own)}")
        return self

    @field_validator("output_schema")
    @classmethod
    def _is_a_type(cls, given: object) -> object:
        if given is not None:
            output_type(given)
        return given

    def alone(self) -> LlmAgent:
        """The same definition without its children, and without models, which its actor is given separately."""
        tools = ToolTuple(tool.alone() if isinstance(tool, AskingTool) else tool for tool in self.tools)
        return self.unchecked_copy(sub_agents=(), model="", tools=tools)

    @property
    def delegates(self) -> Sequence[BaseAgent]:
        """The agents that work for its calls, and graphs: its children, too."""
        return [tool.agent for tool in self.tools if _delegates(tool.__class__)]

    def keeps_unfit(self) -> bool:
        """True when an answer that does not fit `output_schema` is an answer still, and False when it fails the turn."""
        return False

    @cached_property
    def output_type(self) -> OutputType | None:
        """The type of the answer, made of `output_schema`; None without one."""
        return output_type(self.output_schema) if self.output_schema is not None else None


Agent = LlmAgent
"""The short name of LlmAgent. The base of all kinds of agents is BaseAgent."""


@lru_cache(1_024)
def _delegates(kind: type) -> bool:
    """True for DelegateTool. To ask an abstract class about each tool takes ten times as long, and agents are many."""
    return issubclass(kind, DelegateTool)


_FUNCTION_TOOLS: WeakValueDictionary[tuple[int, str, str | None], FunctionTool] = WeakValueDictionary()
"""The tool of each plain function, as long as an agent has it. Keyed by the function's id: the tool keeps the function alive."""


def check_tools(tools: Sequence[Tool]) -> None:
    """Check that an agent can have these tools side by side. Raises ValueError, which names the one that it cannot have."""
    names: set[str] = set()
    for tool in tools:
        if not tool.name:
            raise ValueError(f"a {type(tool).__name__} has no name")
        if not tool.has_any_name and (wrong := flaw_of_name(tool.name)) is not None:
            raise ValueError(wrong)
        if tool.name == TRANSFER_TOOL and not tool.replaces_transfer:
            raise ValueError(f"the name {TRANSFER_TOOL!r} is taken by the tool that agents get for their transfers")
        if tool.require_confirmation and tool.is_long_running:
            raise ValueError(f"tool {tool.name!r}: the answer to a call is the user's consent or a late result, not both")
        if tool.name in names:
            raise ValueError(f"two tools are called {tool.name!r}")
        names.add(tool.name)


def as_tool(given: object) -> Tool:
    """A tool, or a plain function as a FunctionTool.

    Raises:
        ValueError: it is neither.
        DefinitionError: the function cannot be a tool.
    """
    if isinstance(given, Tool):
        return given
    if (delegate := as_delegate(given)) is not None:
        return DelegateTool(delegate)
    if isinstance(given, FunctionType):
        # Thousands of agents may share a function, and inspecting its signature takes 0.5 ms and 20 kB each time.
        known = _FUNCTION_TOOLS.get(key := (id(given), given.__name__, given.__doc__))
        if known is None:
            known = _FUNCTION_TOOLS[key] = FunctionTool(given)
        return known
    if callable(given):
        return FunctionTool(given)
    if hasattr(given, "model_dump"):
        raise ValueError("a tool must be a Tool or a function: google-genai's Tool goes into generate_content_config.tools")
    hint = "; a Toolset stands in the `tools` of an agent" if isinstance(given, Toolset) else ""
    raise ValueError(f"a tool must be a Tool or a function, not {type(given).__name__}{hint}")
