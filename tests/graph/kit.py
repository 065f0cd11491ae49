"""The classes of which a case is built: this project's, or google-adk's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors import (
    DEFAULT_ROUTE,
    START,
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionNode,
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
    """This project's classes, as the words of the notation use them, and programs with graphs.

    Attributes:
        start, default_route: what stands for them in edges.
    """

    start: Any = START
    default_route: Any = DEFAULT_ROUTE

    def content(self, text: str) -> Any:
        """A text that is shown."""
        return Content.of_text(text, role="model")

    def event(
        self,
        *,
        author: str = "",
        branch: str | None = None,
        text: str | None = None,
        output: Any = None,
        partial: bool = False,
        route: Any = None,
        state: Mapping[str, Any] | None = None,
        escalate: bool | None = None,
        skip: bool | None = None,
    ) -> Any:
        """An event that a node yields."""
        actions = EventActions(route=route, state_delta=dict(state or {}), escalate=escalate, skip_summarization=skip)
        content = self.content(text) if text is not None else None
        return Event(author=author, branch=branch, content=content, output=output, partial=partial, actions=actions)

    def request_input(self, **fields: Any) -> Any:
        """A question."""
        return RequestInput(**fields)

    def retry_config(self, **fields: Any) -> Any:
        """How often a node is tried."""
        return RetryConfig(**fields)

    def function_node(self, function: Callable[..., Any], **options: Any) -> Any:
        """A node that calls a function."""
        return FunctionNode(function, **options)

    def node(self, function: Any, **options: Any) -> Any:
        """A node with options."""
        return node(function, **options)

    def join(self, name: str) -> Any:
        """A node that waits for those before it."""
        return JoinNode(name)

    def llm(self, answers: Answers, **fields: Any) -> Any:
        """An agent with such a model, and its name."""
        return LlmAgent(name=answers.name, model=AnsweringModel(answers), **fields)

    def graph(self, name: str, edges: Sequence[Any], below: Sequence[Any] = ()) -> Any:
        """A graph. `below`: the agents that its functions run."""
        return Graph(name=name, edges=edges, sub_agents=below)
