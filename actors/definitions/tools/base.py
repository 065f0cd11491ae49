"""The interfaces of tools, of those that only change requests, and of toolsets, whose tools are known when their agent runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from actors.definitions.tools.context import CallbackContext, ReadonlyContext, ToolContext
from actors.errors.hints import explains_all_wrong_calls
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration, LlmRequest
from actors.rules.checks.questions import credential_answers


class Tool(ABC):
    """Something that a model can call. Most tools are functions: see FunctionTool and `tool`.

    Attributes:
        name: unique among the tools of an agent.
        description: what the tool does, for the model.
        is_long_running: `run` may return None, and the answer comes in a later turn; default False.
        require_confirmation: the tool is run only after the user has agreed, save for calls of which `needs_confirmation` says
            otherwise; default False.
        only_decides: the tool sets actions of its event, always returns a result, and has no other effect, so it may be run
            before its call is stored; default False.
        shows_result: where a call ends the agent's run by `skip_summarization`, its result is the text of that answer; default
            False, for tools whose result is not for users.
        hides: names of the agent's other tools that its model sees only when this tool adds them to a request; default none.
        runs_nodes: its code runs nodes, with `tool_context.run_node`: the events of its agent say their path then; default False.
        has_any_name: its name is not checked: it is that of a program of another library; default False. Models' services refuse
            names that are not of letters, digits, `_` and `-`.
        replaces_transfer: it may be called `transfer_to_agent`, and an agent that has it gets no other one of that name: it hands
            the conversation over by `context.actions.transfer_to_agent`; default False.
    """

    name: str = ""
    description: str = ""
    is_long_running: bool = False
    require_confirmation: bool = False
    only_decides: bool = False
    shows_result: bool = False
    runs_nodes: bool = False
    has_any_name: bool = False
    replaces_transfer: bool = False
    hides: Collection[str] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def declaration(self) -> FunctionDeclaration | None:
        """The tool as the model sees it; None for a tool that is never called and only has a say in requests."""

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:  # noqa: B027 - few have a say
        """Change a request of the agent before it goes to the model; by default nothing is changed.

        Called for every request, in the order of the agent's tools, before any before_model callback.

        Args:
            request: change it in place, down to the texts of its contents.
            context: what is written into its state is stored with the event of the model's response.

        Raises:
            Exception: fails the agent's run.
        """

    async def needs_confirmation(self, args: JsonObject, context: ToolContext) -> bool:
        """Whether the user has to agree to one call of a tool with `require_confirmation`; by default to every one.

        It has to say the same when it is asked again, after a loss.

        Args:
            args: the arguments that the model gave.
            context: of the call; what is written into it is lost.

        Raises:
            Exception: fails the agent's run.
        """
        return True

    @abstractmethod
    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        """Do the work of one call.

        Args:
            args: the arguments that the model gave, a JSON object.
            context: the session's state, its artifacts, and the actions that the call may take.

        Returns:
            A JSON object; any other JSON value is wrapped as `{"result": value}`. None from a long-running tool means that there
            is no answer yet.

        Raises:
            Exception: the model gets the error as the result, and goes on.
        """


@explains_all_wrong_calls
@dataclass(frozen=True)
class CredentialRequest:
    """A toolset's answer if it needs a credential of the user before it can say which tools it has.

    Attributes:
        toolset: names the toolset in the call, for those who answer it.
        question: what the user is asked, for people and programs.
    """

    toolset: str
    question: JsonObject


class Toolset(ABC):
    """Stands in an agent's `tools` for tools that are known only when the agent runs, such as those of a server.

    It is asked when an agent that has it first runs in a process, and its tools are kept for that process.

    Attributes:
        name: names it in errors and in the list of agents; by default the name of the class.
        per_run: ask before each run of the agent instead, because the tools depend on the session; default False.
        searchable: when an agent has more tools of such toolsets than models are shown (`max_listed_tools`), its model finds them
            by `find_tools`; default False.
    """

    name: str = ""
    per_run: bool = False
    searchable: bool = False

    def __init_subclass__(cls, **rest: object) -> None:
        super().__init_subclass__(**rest)
        cls.name = cls.__dict__.get("name") or cls.__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    async def tools(self, context: ReadonlyContext) -> Sequence[Tool] | CredentialRequest:
        """Return the tools; plain functions do as well. No agent can be among them.

        Or a CredentialRequest: the turn pauses with a call of `adk_request_credential`. When the user has answered it, the
        toolset is asked again, and finds the answer by `credential_answer`.

        Args:
            context: the run for which they are asked.

        Raises:
            Exception: fails the agent's run; the next run asks again.
        """

    async def credential_answer(self, context: ReadonlyContext, toolset: str) -> JsonObject | None:
        """Return what the user has answered in this turn to a CredentialRequest of that name; None without an answer."""
        return credential_answers(await context.session.read_events(), context.invocation_id).get(toolset)

    async def aclose(self) -> None:  # noqa: B027 - few hold anything
        """Release what the toolset holds: the last agent that has it leaves the process. It may be asked again afterwards."""


class RequestTool(Tool):
    """A tool that has no declaration. Write `process_request`, which is called before each model call of the agent."""

    def declaration(self) -> None:
        """None: the model cannot call it."""

    @abstractmethod
    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Change a request of the agent: see Tool."""

    async def run(self, args: JsonObject, context: ToolContext) -> NoReturn:
        """Raises LookupError: a model that calls it has made that up."""
        raise LookupError(f"there is no function {self.name!r} to call")


class BuiltInCodeExecutor:
    """Lets Gemini write Python and run it at its service while it answers: `LlmAgent(code_executor=BuiltInCodeExecutor())`.

    Code and output are parts of the answer: `executable_code` and `code_execution_result`.
    """

    def process_request(self, request: LlmRequest) -> None:
        """Put the service's code execution into the configuration."""
        add_to(request, {"code_execution": {}})


def add_to(request: LlmRequest, tool: JsonObject) -> None:
    """Add a tool of the service to a request, if the request has it not yet."""
    tools = request.config.get("tools") or []
    if tool not in tools:
        # A new list: that of the agent's definition is shared.
        request.config["tools"] = [*tools, tool]
