"""Masks what is recorded of a request: every text in it goes through a function, and what is no text is left out.

What is kept without being masked has no words of people: roles, ids, names of functions and of fields, types of data, numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.messages.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
)
from actors.messages.json_types import JsonValue
from actors.messages.llm.model import FunctionDeclaration

Mask = Callable[[str], str]
"""Gives what is recorded in place of a text."""


def masked_tools(tools: Iterable[FunctionDeclaration], mask: Mask) -> list[FunctionDeclaration]:
    """Copies of declarations, masked. Raises what the mask raises."""
    return [
        FunctionDeclaration(name=tool.name, description=mask(tool.description), parameters=masked_value(tool.parameters, mask))
        for tool in tools
    ]


def masked_content(content: Content, mask: Mask) -> Content:
    """A copy of a content, masked. Raises what the mask raises."""
    return Content(role=content.role, parts=[_part(part, mask) for part in content.parts])


def masked_value(value: JsonValue, mask: Mask) -> JsonValue:
    """A copy of a JSON value with the texts in it masked, but not the names of fields; bytes become a text with their number."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: masked_value(each, mask) for key, each in value.items()}
        case list() | tuple():
            return [masked_value(each, mask) for each in value]
        case bytes():
            return _size(value)
        case _:
            return value


def _part(part: Part, mask: Mask) -> Part:
    """A copy with the fields that can be masked. Signatures, and what only passes through us, are left out."""
    call, response, data, file = part.function_call, part.function_response, part.inline_data, part.file_data
    code, result = part.executable_code, part.code_execution_result
    return Part(
        text=_text(part.text, mask),
        thought=part.thought,
        function_call=FunctionCall(id=call.id, name=call.name, args=masked_value(call.args, mask)) if call is not None else None,
        function_response=(
            FunctionResponse(id=response.id, name=response.name, response=masked_value(response.response, mask))
            if response is not None
            else None
        ),
        inline_data=Blob(data=_size(data.data).encode(), mime_type=data.mime_type) if data is not None else None,
        file_data=FileData(file_uri=_text(file.file_uri, mask), mime_type=file.mime_type) if file is not None else None,
        executable_code=ExecutableCode(code=_text(code.code, mask), language=code.language) if code is not None else None,
        code_execution_result=(
            CodeExecutionResult(outcome=result.outcome, output=_text(result.output, mask)) if result is not None else None
        ),
    )


def _text(text: str | None, mask: Mask) -> str | None:
    return mask(text) if text is not None else None


def _size(data: bytes) -> str:
    return f"{len(data)} bytes"
