"""An agent as a tool of another: it is asked, and its answer is the tool's result."""

from __future__ import annotations

from typing import Any

from actors.definitions.agents.agent_tools import AskingTool, TextRequest
from actors.definitions.agents.base import BaseAgent
from actors.definitions.schemas import output_type
from actors.definitions.tools.context import ToolContext
from actors.errors import DefinitionError, ToolAgentError
from actors.errors.hints import explains_wrong_calls
from actors.messages.config import Background
from actors.messages.content import Content
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.protocol.runs import Paused


class AgentTool(AskingTool):
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
        background: True, or a Background with options, has the agent work on in a turn of its own: the result is
            `{"run": id, "status": "running"}` at once. The agent that has asked it hears of its end, and has tools to look after
            its runs: `check_run`, `steer_run`, `cancel_run` and `wait_for_runs`. Default False.

    Raises:
        DefinitionError: `agent` is no agent, or `background` and `skip_summarization` are given together.
    """

    shows_result = True

    @explains_wrong_calls
    def __init__(self, agent: BaseAgent, *, skip_summarization: bool = False, background: bool | Background = False) -> None:
        if not isinstance(agent, BaseAgent):
            raise DefinitionError(f"AgentTool needs an agent, not {type(agent).__name__}")
        super().__init__(agent, schema_of(agent, "input_schema", 0) or TextRequest)
        if background and skip_summarization:
            raise DefinitionError(f"AgentTool({agent.name!r}): background=True has no result that skip_summarization could show")
        self.skip_summarization = skip_summarization
        self.background = Background() if background is True else background or None
        schema = schema_of(agent, "output_schema", -1)
        self._output = output_type(schema) if schema is not None else None

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        """Ask the agent and return its answer.

        Raises:
            ValueError: an argument is missing or wrong.
            NotCarriedOverError: the agent has asked for something that has no counterpart.
            AgentFailedError: the agent failed; the event of its failure is in the log.
            ToolAgentError: the agent paused, was stopped, or gave an answer that does not fit its `output_schema`.
        """
        asked = self.checked(args, context.agent_name)
        message = asked.request if isinstance(asked, TextRequest) else asked.model_dump_json(exclude_none=True)
        if self.background is not None:
            run = await context.start(self.name, message, background=self.background)
            return {"run": run.id, "status": run.status}
        outcome, answer = await context.ask_agent(self.name, Content.of_text(message))
        if isinstance(outcome, Paused):
            said = f"; it says: {answer}" if answer else ""
            raise ToolAgentError(
                self.name, f"it waits for the answer to a long-running call, which it cannot get as a tool{said}"
            )
        self.require_answer(outcome)
        if self.skip_summarization:
            context.actions.skip_summarization = True
        return self._result(answer)

    def _result(self, answer: str) -> JsonValue:
        if self._output is None:
            return answer
        try:
            return self._output.value_of(answer)
        except ValueError as error:
            raise ToolAgentError(self.name, f"its answer does not fit its output_schema: {error}") from error


def schema_of(agent: BaseAgent, field: str, index: int) -> Any:
    """The schema of an agent; of one without such a field that of the agent below it at that index, and so on."""
    while not hasattr(agent, field) and agent.sub_agents:
        agent = agent.sub_agents[index]
    return getattr(agent, field, None)
