"""An agent as a tool of another: it is asked, and its answer is the tool's result."""

from __future__ import annotations

import copy
from typing import Any

import pydantic

from actors.definitions.agents.base import BaseAgent
from actors.definitions.agents.output_type import output_type
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import without_unknown
from actors.definitions.tools.json_schema import json_schema
from actors.errors import AgentFailedError, DefinitionError, NotCarriedOverError, ToolAgentError
from actors.errors.calls import explains_wrong_calls
from actors.errors.tracebacks import with_traceback
from actors.errors.validation import problems
from actors.messages.content import Content
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import FunctionDeclaration
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed, Paused


class _Request(pydantic.BaseModel):
    """What an agent without an `input_schema` is asked."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    request: str = pydantic.Field(description="What you want of the agent, with all that it needs to know.")


class AgentTool(Tool):
    """A tool that asks an agent. The agent runs in its own actor and sees nothing of the conversation but the request.

    The agent stands beside the tree: no agent outside can transfer to it, and no message of the user reaches it. It and the
    agents below it may transfer to each other. Its events are in the log, on a branch that no other agent sees; what it writes
    into state is seen by all. One agent may be the tool of several agents.

    Args:
        agent: the agent to ask; the tool takes its name and description. With an `input_schema` the tool takes those arguments
            and passes them on as JSON; without, it takes one text, `request`. With an `output_schema` the result is a value
            of that type; without, it is a text. A workflow agent has the `input_schema` of its first agent, and the
            `output_schema` of its last.
        skip_summarization: True makes the result the end, and the answer, of the asking agent's run; default False.

    Raises:
        DefinitionError: `agent` is no agent.
    """

    shows_result = True

    @explains_wrong_calls
    def __init__(self, agent: BaseAgent, *, skip_summarization: bool = False) -> None:
        if not isinstance(agent, BaseAgent):
            raise DefinitionError(f"AgentTool needs an agent, not {type(agent).__name__}")
        self.agent = agent
        self.name = agent.name
        self.description = agent.description
        self.skip_summarization = skip_summarization
        self._input: type[pydantic.BaseModel] = _schema(agent, "input_schema", 0) or _Request
        schema = _schema(agent, "output_schema", -1)
        self._output = output_type(schema) if schema is not None else None

    def alone(self) -> AgentTool:
        """The same tool without the agents below its agent, as it is sent to the actor of the agent that has it."""
        alone = copy.copy(self)
        alone.agent = self.agent.alone()
        return alone

    def declaration(self) -> FunctionDeclaration:
        """The agent as the model sees it: a function of its `input_schema`, or of one text."""
        schema = json_schema(self._input)
        schema.pop("title", None)
        schema.pop("description", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return FunctionDeclaration(name=self.name, description=self.description, parameters=schema)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        """Ask the agent and return its answer.

        Raises:
            ValueError: an argument is missing or wrong.
            NotCarriedOverError: the agent has asked for something that has no counterpart.
            AgentFailedError: the agent failed; the event of its failure is in the log.
            ToolAgentError: the agent paused, was stopped, or gave an answer that does not fit its `output_schema`.
        """
        outcome, answer = await context.ask_agent(self.name, Content.of_text(self._message(args, context.agent_name)))
        self._require_end(outcome, answer)
        if self.skip_summarization:
            context.actions.skip_summarization = True
        return self._result(answer)

    def _message(self, args: JsonObject, agent: str) -> str:
        if self._input is _Request:
            args = without_unknown(args, _Request.model_fields, self.name, agent)
        try:
            asked = self._input.model_validate(args)
        except pydantic.ValidationError as error:
            takes = ", ".join(self._input.model_fields)
            raise ValueError(f"wrong arguments for {self.name}: {problems(error)}. It takes: {takes}") from error
        return asked.request if isinstance(asked, _Request) else asked.model_dump_json(exclude_none=True)

    def _require_end(self, outcome: AnyOutcome, answer: str) -> None:
        match outcome:
            case Failed() if outcome.error_code == NotCarriedOverError.__name__:
                # The program cannot go on.
                raise NotCarriedOverError(outcome.error_message)
            case Failed():
                failed = AgentFailedError(outcome.agent or self.name, outcome.error_code, outcome.error_message)
                raise with_traceback(failed, outcome.error_traceback)
            case Paused():
                said = f"; it says: {answer}" if answer else ""
                reason = f"it waits for the answer to a long-running call, which it cannot get as a tool{said}"
                raise ToolAgentError(self.name, reason)
            case Cancelled():
                raise ToolAgentError(self.name, "it was stopped")

    def _result(self, answer: str) -> JsonValue:
        if self._output is None:
            return answer
        try:
            return self._output.value_of(answer)
        except ValueError as error:
            raise ToolAgentError(self.name, f"its answer does not fit its output_schema: {error}") from error


def _schema(agent: BaseAgent, field: str, index: int) -> Any:
    """The schema of an agent; of one without such a field that of the agent below it at that index, and so on."""
    while not hasattr(agent, field) and agent.sub_agents:
        agent = agent.sub_agents[index]
    return getattr(agent, field, None)
