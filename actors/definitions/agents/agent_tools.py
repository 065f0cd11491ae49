"""Tools by which an agent works with others: it has them work for its calls, hands the conversation over, and hands on what has
come of its task (semantics.md sections 3 and 8).
"""

from __future__ import annotations

import copy
from functools import singledispatch
from inspect import isclass
from typing import Self

import pydantic

from actors.definitions.agents.base import BaseAgent
from actors.definitions.schemas import OutputType, arguments_schema
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import without_unknown
from actors.errors import AgentFailedError, NotCarriedOverError, ToolAgentError
from actors.errors.hints import problems
from actors.errors.tracebacks import with_traceback
from actors.errors.user_code import in_thread
from actors.messages.event import Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration
from actors.messages.protocol.runs import AnyOutcome, Cancelled, Failed, Finished, Paused
from actors.messages.topology import SINGLE_TURN, TASK
from actors.rules.routing.transfer import FIND_TOOL, TRANSFER_TOOL, TransferMenu, find_agents_declaration


class TextRequest(pydantic.BaseModel):
    """What an agent without an `input_schema` is asked."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    request: str = pydantic.Field(description="What you want of the agent, with all that it needs to know.")


class AskingTool(Tool):
    """A tool that asks an agent.

    Args:
        agent: the agent; the tool takes its name and description.
        input: the arguments.
    """

    def __init__(self, agent: BaseAgent, input: type[pydantic.BaseModel]) -> None:
        self.agent = agent
        self.name = agent.name
        self.description = agent.description
        self._input = input

    def alone(self) -> Self:
        """The same tool without the agents below its agent, as it is sent to the actor of the agent that has it."""
        alone = copy.copy(self)
        alone.agent = self.agent.alone()
        return alone

    def declaration(self) -> FunctionDeclaration:
        """The agent as the model sees it: a function of its `input_schema`, or of one text."""
        return FunctionDeclaration(name=self.name, description=self.description, parameters=self.parameters())

    def parameters(self) -> JsonObject:
        """The schema of its arguments."""
        return arguments_schema(self._input)

    def checked(self, args: JsonObject, agent: str) -> pydantic.BaseModel:
        """The arguments of a call of an agent. Raises ValueError when one is missing or wrong."""
        if self._input is TextRequest:
            args = without_unknown(args, TextRequest.model_fields, self.name, agent)
        try:
            return self._input.model_validate(args)
        except pydantic.ValidationError as error:
            takes = ", ".join(self._input.model_fields)
            raise ValueError(f"wrong arguments for {self.name}: {problems(error)}. It takes: {takes}") from error

    def require_answer(self, outcome: AnyOutcome) -> None:
        """Raise for a run that has ended without an answer.

        Raises:
            NotCarriedOverError: the agent has asked for something that has no counterpart.
            AgentFailedError: the agent failed; the event of its failure is in the log.
            ToolAgentError: the agent was stopped.
        """
        match outcome:
            case Failed() if outcome.error_code == NotCarriedOverError.__name__:
                # The program cannot go on.
                raise NotCarriedOverError(outcome.error_message)
            case Failed():
                failed = AgentFailedError(outcome.agent or self.name, outcome.error_code, outcome.error_message)
                raise with_traceback(failed, outcome.error_traceback)
            case Cancelled():
                raise ToolAgentError(self.name, "it was stopped")


DELEGATED = (TASK, SINGLE_TURN)
"""The modes of agents to which an LLM agent above them delegates."""


@singledispatch
def as_delegate(_: object) -> BaseAgent | None:
    """The agent to which an LLM agent delegates that has this in its `tools`; None for what is no such thing."""
    return None


class DelegateTool(AskingTool):
    """A tool that has a child of the agent run as a node, one run for each call.

    Unlike the agent of an AgentTool the child is part of the tree: what it asks the user pauses the turn, and the answer
    reaches it. LLM agents have one for each child with `mode="task"` or `mode="single_turn"`, and for each graph in `tools`.

    Args:
        agent: the child; the tool takes its name and description. With a pydantic model as its `input_schema` the tool takes
            the arguments of that; with another type, one argument `request` of that type; without, one text, `request`.
    """

    def __init__(self, agent: BaseAgent) -> None:
        schema = getattr(agent, "input_schema", None)
        takes_fields = isclass(schema) and issubclass(schema, pydantic.BaseModel)
        if schema is not None and not takes_fields:
            super().__init__(agent, pydantic.create_model(agent.name, request=(schema, ...)))
        else:
            super().__init__(agent, schema or TextRequest)
        self._is_task = getattr(agent, "mode", None) == TASK
        self._takes_request = not takes_fields and not self._is_task

    @property
    def counts_calls(self) -> bool:
        """True when paths name a run by its number, as those of nodes; else by the id of its call."""
        return getattr(self.agent, "mode", None) == SINGLE_TURN

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue | Paused:
        """Have the agent work for this call.

        Returns:
            Its output, of a task a dictionary; or Paused, while it waits for the user: the call is made again then, and goes on.

        Raises:
            ValueError: an argument is missing or wrong.
            NotCarriedOverError: the agent has asked for something that has no counterpart.
            AgentFailedError: the agent failed; the event of its failure is in the log.
            ToolAgentError: the agent was stopped.
        """
        asked = self.checked(args, context.agent_name)
        given: JsonObject = asked.model_dump(mode="json")
        data: JsonValue = given["request"] if self._takes_request else given
        outcome: AnyOutcome = await context.delegate(self.name, data)
        if isinstance(outcome, Paused):
            return outcome
        self.require_answer(outcome)
        output = outcome.output if isinstance(outcome, Finished) else None
        # As in google-adk: that of any other tool stands under "result".
        return {"output": output} if self._is_task and not isinstance(output, dict) else output


FINISH_TASK = "finish_task"
"""The name of the tool; google-adk's."""

RULES = (
    "You work on one task, and may talk with the user about it for as long as it takes. When you have what it asks for, call "
    f"`{FINISH_TASK}` with it, together with no other function. What you only say does not end the task."
)
"""What stands about it in the system instruction."""

_RESULT = "result"


class FinishTaskTool(Tool):
    """`finish_task`, whose arguments are the agent's output: the fields of its output_schema; else one text, `result`.

    Args:
        type: of the output; None for a text. What is no object stands under `result`.
    """

    name = FINISH_TASK
    description = "Finish your task: hand on what has come of it."

    def __init__(self, type: OutputType | None) -> None:
        self._type = type
        self._is_wrapped = type is not None and type.json_schema.get("type") != "object"

    def declaration(self) -> FunctionDeclaration:
        """The fields of the output."""
        if self._type is not None and not self._is_wrapped:
            return FunctionDeclaration(name=self.name, description=self.description, parameters=self._type.json_schema)
        result = {"type": "string"} if self._type is None else dict(self._type.json_schema)
        # References lead to definitions at the root of a schema.
        definitions = {"$defs": result.pop("$defs")} if "$defs" in result else {}
        parameters = {"type": "object", "properties": {_RESULT: result}, "required": [_RESULT], **definitions}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Say that the task is over; or, with arguments that do not fit, why it is not."""
        try:
            self.output(args)
        except ValueError as error:
            reason = f"Invoking `{self.name}()` failed due to validation errors:\n{error}"
            return {"error": f"{reason}\nThe task is not over: call it again with all arguments, each of its type."}
        return {"result": "Task completed."}

    def output(self, args: JsonObject) -> JsonValue:
        """The output in the arguments of a call. Raises ValueError when they do not fit."""
        if self._type is not None and not self._is_wrapped:
            return self._type.data_of(args)
        if _RESULT not in args:
            raise ValueError(f"1 argument is missing: `{_RESULT}`")
        if self._type is not None:
            return self._type.data_of(args[_RESULT])
        if not isinstance(args[_RESULT], str):
            raise ValueError(f"1 argument is wrong: `{_RESULT}` is a text")
        return {_RESULT: args[_RESULT]}

    def finished(self, event: Event, calls: JsonObject) -> JsonValue:
        """The output of the call that an event answers with success; None when it answers none.

        Args:
            calls: the arguments of the calls, by their ids.
        """
        for response in event.function_responses():
            if response.name == self.name and "error" not in response.response:
                return self.output(calls[response.id or ""])
        return None


class TransferTool(Tool):
    """`transfer_to_agent`, with the targets of one agent."""

    name = TRANSFER_TOOL
    only_decides = True

    def __init__(self, menu: TransferMenu) -> None:
        self._menu = menu

    def declaration(self) -> FunctionDeclaration:
        """One required string, `agent_name`."""
        return self._menu.declaration()

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject | None:
        """Set the action `transfer_to_agent`; or return an error that names valid targets."""
        wanted = args.get("agent_name")
        refused = self._menu.refusal(wanted)
        if refused is not None:
            return {"error": refused}
        context.actions.transfer_to_agent = wanted
        return None


class FindAgentsTool(Tool):
    """`find_agents`, for an agent that has too many targets to list them for its model."""

    name = FIND_TOOL

    def __init__(self, menu: TransferMenu) -> None:
        self._menu = menu

    def declaration(self) -> FunctionDeclaration:
        """One required string, `query`."""
        return find_agents_declaration()

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Return the names and descriptions of the targets that fit best."""
        query = args.get("query")
        if not isinstance(query, str) or not query.strip():
            return {"error": f"{FIND_TOOL} needs the argument query, words to look for"}
        # Of ten thousand agents the first search takes 50 ms.
        found = await in_thread(self._menu.find, question=query)
        if not found:
            return {"agents": [], "hint": "No agent fits these words. Try others, or answer yourself."}
        return {"agents": [{"name": target.name, "description": target.description} for target in found]}


def transfer_tools(menu: TransferMenu) -> tuple[Tool, ...]:
    """The tools that an agent with these targets is given."""
    return (TransferTool(menu),) if menu.is_listed else (FindAgentsTool(menu), TransferTool(menu))
