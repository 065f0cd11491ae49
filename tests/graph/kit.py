"""The classes of which a program is built: this project's, or google-adk's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from actors import (
    START,
    Content,
    Event,
    EventActions,
    FunctionCall,
    Graph,
    JoinNode,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    RequestInput,
    RetryConfig,
    node,
)

if TYPE_CHECKING:
    from tests.graph.programs import Answers


class AnsweringModel:
    """Answers as it is told to, by what it is asked."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        said = self._answers.reply(request)
        if isinstance(said, str):
            part = Part(text=said)
        else:
            call_id = f"fc-{self._answers.name}-{len(request.contents)}"
            part = Part(function_call=FunctionCall(id=call_id, name=said[0], args=dict(said[1])))
        yield LlmResponse(content=Content(role="model", parts=[part]))


class Kit:
    """This project's classes, as programs with graphs use them."""

    start: Any = START
    request_input: Callable[..., Any] = RequestInput
    retry_config: Callable[..., Any] = RetryConfig
    node: Callable[..., Any] = staticmethod(node)

    def event(self, *, route: str, output: Any = None) -> Any:
        """An event that a node yields."""
        return Event(author="", output=output, actions=EventActions(route=route))

    def join(self, name: str) -> Any:
        """A node that waits for those before it."""
        return JoinNode(name)

    def llm(self, answers: Answers, **fields: Any) -> Any:
        """An agent with such a model, and its name."""
        return LlmAgent(name=answers.name, model=AnsweringModel(answers), **fields)

    def graph(self, name: str, edges: Sequence[Any], below: Sequence[Any] = ()) -> Any:
        """A graph. `below`: the agents that its functions run."""
        return Graph(name=name, edges=edges, sub_agents=below)
