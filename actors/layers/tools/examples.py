"""A tool that shows the model examples of good answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from actors.definitions.tools.base import RequestTool
from actors.definitions.tools.context import CallbackContext
from actors.errors import DefinitionError, InvalidMessageError, NotEncodableError
from actors.errors.hints import explains_wrong_calls
from actors.messages.content import Content, Part
from actors.messages.drafts import own_content
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest


class Example:
    """What a user may say, and what the agent is to say and call then.

    Args:
        input: the user's message.
        output: the contents of the answer, in order. Contents may be google-genai's, or their dictionaries.

    Raises:
        DefinitionError: one of them is no content.
    """

    @explains_wrong_calls
    def __init__(self, *, input: Content | JsonObject, output: Sequence[Content | JsonObject]) -> None:
        if isinstance(output, Content | dict | str) or not isinstance(output, Sequence):
            raise DefinitionError(f"Example.output is a list of contents, not {type(output).__name__}: write output=[…]")
        self.input = _content("input", input)
        self.output = [_content(f"output[{index}]", each) for index, each in enumerate(output)]


@runtime_checkable
class ExampleProvider(Protocol):
    """Chooses the examples that fit a message; ADK's BaseExampleProvider is one."""

    def get_examples(self, query: str) -> Sequence[Example]:
        """Return the examples for the text of the user's message."""
        ...


class ExampleTool(RequestTool):
    """Adds examples to the system instruction of each request.

    Args:
        examples: the examples, or dictionaries with `input` and `output`; or an object that chooses them by the user's message.

    Raises:
        DefinitionError: it is something else.
    """

    name = "example_tool"

    @explains_wrong_calls
    def __init__(self, examples: Sequence[Example | JsonObject] | ExampleProvider) -> None:
        self.examples: Sequence[Example] | ExampleProvider = (
            examples if isinstance(examples, ExampleProvider) else _examples(examples)
        )

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Add the examples."""
        provider = self.examples
        shown = provider.get_examples(context.user_content.text) if isinstance(provider, ExampleProvider) else provider
        if shown:
            request.append_instructions([_text(_examples(shown))])


def _examples(given: object) -> list[Example]:
    if isinstance(given, str | dict) or not isinstance(given, Sequence):
        raise DefinitionError(f"ExampleTool takes a list of Examples, not {type(given).__name__}")
    return [_example(each) for each in given]


def _example(given: object) -> Example:
    if isinstance(given, Example):
        return given
    if isinstance(given, dict) and given.keys() == {"input", "output"}:
        return Example(**given)
    if hasattr(given, "input") and hasattr(given, "output"):
        return Example(input=given.input, output=given.output)
    raise DefinitionError(f"ExampleTool takes Examples, or dictionaries with input and output, not {given!r:.80}")


def _content(where: str, given: object) -> Content:
    try:
        return own_content(given)
    except (InvalidMessageError, NotEncodableError, TypeError) as error:
        raise DefinitionError(f"Example.{where}: {error}") from error


def _text(examples: Sequence[Example]) -> str:
    """The examples as a part of a system instruction."""
    shown = [f"<example>\n{_dialogue(example)}\n</example>" for example in examples]
    return "\n".join(
        ["These examples show what users say, and how you answer and call functions:", "<examples>", *shown, "</examples>"]
    )


def _dialogue(example: Example) -> str:
    lines = [f"user: {example.input.text}"]
    for content in example.output:
        who = "you" if content.role != "user" else "user"
        lines += [f"{who}{said}" for part in content.parts if (said := _said(part))]
    return "\n".join(lines)


def _said(part: Part) -> str:
    if part.function_call is not None:
        return f" call {part.function_call.name}({_json(part.function_call.args)})"
    if part.function_response is not None:
        return f" get from {part.function_response.name}: {_json(part.function_response.response)}"
    return f": {part.text}" if part.text else ""


def _json(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()
