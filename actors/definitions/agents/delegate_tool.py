"""An agent that works for the calls of the one above it, with the user if need be (semantics.md section 8)."""

from __future__ import annotations

from functools import singledispatch
from inspect import isclass

import pydantic

from actors.definitions.agents.asking_tool import AskingTool, TextRequest
from actors.definitions.agents.base import BaseAgent
from actors.definitions.tools.context import ToolContext
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused
from actors.messages.topology import SINGLE_TURN, TASK

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
