"""What tools have in common that ask an agent: its name, its arguments, and the end of its run."""

from __future__ import annotations

import copy
from typing import Self

import pydantic

from actors.definitions.agents.base import BaseAgent
from actors.definitions.tools.base import Tool
from actors.definitions.tools.function import without_unknown
from actors.definitions.tools.json_schema import json_schema
from actors.errors import AgentFailedError, NotCarriedOverError, ToolAgentError
from actors.errors.hints import problems
from actors.errors.tracebacks import with_traceback
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import FunctionDeclaration
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed


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
        schema = json_schema(self._input)
        schema.pop("title", None)
        schema.pop("description", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return schema

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
