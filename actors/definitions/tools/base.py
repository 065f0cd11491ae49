"""The interface of every tool."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import FunctionDeclaration, LlmRequest


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
