"""The planner of an agent has a say in its requests and responses: see BasePlanner. One of them has any model plan."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.behaviours.interceptor import CallModel, PrepareRequest, RunInterceptor
from actors.behaviours.lifecycle import as_response
from actors.definitions.agents.llm import BasePlanner
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.context import CallbackContext, ReadonlyContext
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.messages.content import Content, Part
from actors.messages.drafts import draft_of_content
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import LlmRequest, LlmResponse, as_json
from actors.messages.topology import LLM


class Planning(RunInterceptor):
    """Has the planner change requests before tools and callbacks do, and responses after callbacks."""

    changes_requests = True

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent with a planner."""
        return spec.kind == LLM and spec.llm_agent.planner is not None

    async def prepare_request(self, prepare: PrepareRequest) -> LlmResponse | None:
        """Change the request, and the response that a callback has in place of the model's."""
        self._planner.process_request(prepare.request, prepare.context)
        replaced = await self.next.prepare_request(prepare)
        return self._planned(replaced, prepare.context) if replaced is not None else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Change the response, and its pieces."""
        if (show := call.show) is not None:
            pieces = _Pieces(self._planner)

            async def show_planned(content: Content | None) -> None:
                await show(pieces.shown(content) if content is not None else None)

            call.show = show_planned
        return self._planned(await self.next.call_model(call), call.context())

    @property
    def _planner(self) -> BasePlanner:
        planner = self.run.spec.llm_agent.planner
        assert planner is not None
        return planner

    def _planned(self, response: LlmResponse, context: CallbackContext) -> LlmResponse:
        if response.content is None:
            return response
        draft = draft_of_content(response.content)
        parts = self._planner.process_planning_response(context, list(draft.parts))
        planned = msgspec.structs.replace(response, content=Content(parts=parts or draft.parts))
        return as_response(planned, self.run.spec.model_name)


class _Pieces:
    """The pieces of one response."""

    def __init__(self, planner: BasePlanner) -> None:
        self._planner = planner
        self._text = ""

    def shown(self, content: Content) -> Content | None:
        """The next piece; None when nothing of it is to be shown yet."""
        parts: list[Part] = []
        for part in content.parts:
            if part.text and not part.thought and part.carries_only_text():
                parts += self._planner.partial_text(self._text, part.text)
                self._text += part.text
            else:
                parts.append(part)
        return Content(role=content.role, parts=parts) if parts else None


PLANNING = "/*PLANNING*/"
REPLANNING = "/*REPLANNING*/"
REASONING = "/*REASONING*/"
ACTION = "/*ACTION*/"
FINAL_ANSWER = "/*FINAL_ANSWER*/"

_THINKING = (PLANNING, REPLANNING, REASONING, ACTION)
_TAGS = (*_THINKING, FINAL_ANSWER)

_INSTRUCTION = f"""Work on each question in these steps, and begin each part of your text with the tag of its step:

{PLANNING} First write a plan: a numbered list of steps, each of which uses one or more of the functions that you have. The plan \
covers all that the question asks for.
{ACTION} Then take the steps of the plan by calling functions. Call only functions that you have, with the arguments that they \
declare, and rather look things up than rely on what you remember.
{REASONING} Between calls sum up what is known so far and what is to be done next.
{REPLANNING} When the plan does not work, write a new one that follows from what has been found out, and take its steps.
{FINAL_ANSWER} At last give one answer, precise and in the form that was asked for. If the question cannot be answered with what \
you have, say why, and ask for what is missing.

Use what the conversation already holds instead of calling a function again. Ask back when a question is not clear."""


class PlanReActPlanner(BasePlanner):
    """Plans, acts and reasons with any model. Only what follows its final answer's tag is its answer; the rest are thoughts."""

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str:
        """Return the description of the steps and their tags."""
        return _INSTRUCTION

    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> list[Part]:
        """Mark plans and reasoning as thoughts, and take the tags out. What follows the first group of calls is left out."""
        parts: list[Part] = []
        has_called = False
        for part in response_parts:
            if part.function_call is not None:
                if part.function_call.name:
                    parts.append(part)
                    has_called = True
            elif has_called:
                break
            elif part.text and not part.thought:
                parts += _parts_of(part)
            else:
                parts.append(part)
        return parts

    def partial_text(self, before: str, text: str) -> Sequence[Part]:
        """The piece without tags, as a thought up to the tag of the final answer."""
        shown = _shown(before)
        thought, answer = _shown(before + text)
        parts = [Part(text=thought[len(shown[0]) :], thought=True), Part(text=answer[len(shown[1]) :])]
        return [part for part in parts if part.text]


def _parts_of(part: Part) -> list[Part]:
    """A text as a thought, or as a thought and an answer; a text without tags is an answer."""
    text = part.text or ""
    if FINAL_ANSWER not in text and not text.lstrip().startswith(_THINKING):
        return [part]
    thought, _, answer = text.rpartition(FINAL_ANSWER) if FINAL_ANSWER in text else (text, "", "")
    said = [(each.strip(), mark) for each, mark in ((_without_tags(thought), True), (answer, None)) if each.strip()]
    # A signature of the text is kept, on the last part.
    return [
        msgspec.structs.replace(part, text=each, thought=mark, thought_signature=part.thought_signature if last else None)
        for last, (each, mark) in ((index == len(said) - 1, pair) for index, pair in enumerate(said))
    ]


def _without_tags(text: str) -> str:
    for tag in _TAGS:
        text = text.replace(tag, "")
    return text


def _shown(text: str) -> tuple[str, str]:
    """The part of a growing text that can be shown: its thought and its answer."""
    # The end may be the beginning of a tag, which the next piece completes.
    begun = next((size for size in range(len(FINAL_ANSWER), 0, -1) if _is_begun(text[-size:], size)), 0)
    text = text[: len(text) - begun]
    thought, found, answer = text.partition(FINAL_ANSWER)
    if not found and not text.lstrip().startswith(_THINKING):
        return "", text
    return _without_tags(thought), answer


def _is_begun(end: str, size: int) -> bool:
    return len(end) == size and any(tag != end and tag.startswith(end) for tag in _TAGS)


class BuiltInPlanner(BasePlanner):
    """Turns on the thinking of models that can think. Thoughts of the model are parts with `thought`.

    Args:
        thinking_config: google-genai's ThinkingConfig, or a dictionary of its fields, such as `{"include_thoughts": True}`. It
            takes the place of one in the agent's `generate_content_config`.

    Raises:
        DefinitionError: it is something else.
    """

    @explains_wrong_calls
    def __init__(self, *, thinking_config: JsonValue) -> None:
        fields = as_json(thinking_config)
        if not isinstance(fields, dict):
            kind = type(thinking_config).__name__
            raise DefinitionError(f"thinking_config must be a ThinkingConfig or a dictionary of its fields, not {kind}")
        self.thinking_config: JsonObject = fields

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> None:
        """None: the model needs no instruction."""

    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> None:
        """None: the model marks its thoughts itself."""

    def process_request(self, request: LlmRequest, context: ReadonlyContext) -> None:
        """Put the configuration into the request."""
        request.config["thinking_config"] = dict(self.thinking_config)
