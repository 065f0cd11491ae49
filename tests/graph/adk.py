"""The kit of google-adk's classes, whose graphs run unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events import Event, RequestInput
from google.adk.models.base_llm import BaseLlm
from google.adk.workflow import START, JoinNode, RetryConfig, Workflow, node
from pydantic import PrivateAttr

from actors import LlmRequest
from actors.interfaces.model import Model
from runtime.integrations.adk.contents import adk_response, own_content
from tests.graph.kit import AnsweringModel, Kit
from tests.graph.programs import Answers


class AdkKit(Kit):
    start: Any = START
    request_input: Callable[..., Any] = RequestInput
    retry_config: Callable[..., Any] = RetryConfig
    node: Callable[..., Any] = staticmethod(node)

    def event(self, **fields: Any) -> Any:
        return Event(**fields)

    def join(self, name: str) -> Any:
        return JoinNode(name=name)

    def llm(self, answers: Answers, **fields: Any) -> Any:
        return LlmAgent(name=answers.name, model=ScriptedLlm(AnsweringModel(answers)), **fields)

    def graph(self, name: str, edges: Sequence[Any], below: Sequence[Any] = ()) -> Any:
        # google-adk finds the agents that functions run by itself.
        return Workflow(name=name, edges=edges)


class ScriptedLlm(BaseLlm):  # type: ignore[misc]
    """Answers as a model of this project does."""

    _script: Model = PrivateAttr()

    def __init__(self, script: Model) -> None:
        super().__init__(model="scripted")
        self._script = script

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        request = LlmRequest(contents=[own_content(each) for each in llm_request.contents])
        async for response in self._script.generate(request, stream=stream):
            yield adk_response(response)
