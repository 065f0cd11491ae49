"""An agent as a tool of another: it is asked, and its answer is the tool's result."""

from __future__ import annotations

import copy
from typing import Any

import pydantic

from actors.definitions.agents.base import Agent
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.json_schema import json_schema
from actors.errors import AgentFailedError, DefinitionError, ToolAgentError
from actors.messages.content import Content
from actors.messages.model import FunctionDeclaration
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed, Paused


class _Request(pydantic.BaseModel):
    """What an agent without an `input_schema` is asked."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    request: str = pydantic.Field(description="What you want of the agent, with all that it needs to know.")


class AgentTool(Tool):
    """A tool that asks an agent, which runs in an actor of its own and sees nothing of the conversation but what it is asked.

    The agent stands beside the tree: nobody can transfer to it, and no message of the user reaches it. It and those below it may
    transfer to each other. Its events are in the log, on a branch that no other agent sees; what it writes into state is
    seen by all. The same agent may be the tool of several agents.

    Args:
        agent: whom to ask; the tool has its name and description. With an `input_schema` the tool takes those arguments, and
            the agent is given them as JSON; otherwise it takes one text, `request`. With an `output_schema` the result is that
            object.
        skip_summarization: the result is the end of the asking agent's run.

    Raises:
        DefinitionError: `agent` is none.
    """

    def __init__(self, agent: Agent, *, skip_summarization: bool = False) -> None:
        if not isinstance(agent, Agent):
            raise DefinitionError(f"AgentTool needs an agent, not {type(agent).__name__}")
        self.agent = agent
        self.name = agent.name
        self.description = agent.description
        self.skip_summarization = skip_summarization
        self._input: type[pydantic.BaseModel] = getattr(agent, "input_schema", None) or _Request
        self._output: type[pydantic.BaseModel] | None = getattr(agent, "output_schema", None)

    def alone(self) -> AgentTool:
        """The same tool with its agent alone: what travels to the actor of the agent that has it."""
        alone = copy.copy(self)
        alone.agent = self.agent.alone()
        return alone

    def declaration(self) -> FunctionDeclaration:
        """The agent as the model sees it."""
        schema = json_schema(self._input)
        schema.pop("title", None)
        schema.pop("description", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return FunctionDeclaration(name=self.name, description=self.description, parameters=schema)

    async def run(self, args: dict[str, Any], context: ToolContext) -> Any:
        """Ask the agent.

        Raises:
            ValueError: an argument is missing or wrong.
            AgentFailedError: the agent failed; its own event of that is in the log.
            ToolAgentError: it did not answer, or not as it should.
        """
        outcome, said = await context.ask_agent(self.name, Content.of_text(self._message(args)))
        self._require_end(outcome)
        if self.skip_summarization:
            context.actions.skip_summarization = True
        return self._result(said)

    def _message(self, args: dict[str, Any]) -> str:
        try:
            asked = self._input.model_validate(args)
        except pydantic.ValidationError as error:
            takes = ", ".join(self._input.model_fields)
            raise ValueError(f"wrong arguments for {self.name}: {_told(error)}. It takes: {takes}") from error
        return asked.request if isinstance(asked, _Request) else asked.model_dump_json(exclude_none=True)

    def _require_end(self, outcome: AnyOutcome) -> None:
        match outcome:
            case Failed():
                raise AgentFailedError(outcome.agent or self.name, outcome.error_code, outcome.error_message)
            case Paused():
                raise ToolAgentError(self.name, "it waits for the answer to a long-running call, which it cannot get as a tool")
            case Cancelled():
                raise ToolAgentError(self.name, "it was stopped")

    def _result(self, said: str) -> Any:
        if self._output is None:
            return said
        try:
            return self._output.model_validate_json(said).model_dump(mode="json", exclude_none=True)
        except pydantic.ValidationError as error:
            raise ToolAgentError(self.name, f"its answer does not fit its output_schema: {_told(error)}") from error


def _told(error: pydantic.ValidationError) -> str:
    wrong = (f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors())
    return "; ".join(told.removeprefix(": ") for told in wrong)
