"""Events and contents in the notation of vectors.yaml."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from actors import Content, Event, Part
from tests.support.vectors.vector_notation import VectorError


def is_compared(event: Event) -> bool:
    """True for events that are compared: complete ones with parts or an error."""
    return not event.partial and (bool(event.content and event.content.parts) or event.error_code is not None)


def rendered(event: Event, *, branch: bool = False) -> list[str]:
    """`[author, "parts flags"]`."""
    actions = event.actions
    parts = " + ".join(_rendered_part(part) for part in event.content.parts) if event.content else ""
    flags = [
        f"!transfer={actions.transfer_to_agent}" if actions.transfer_to_agent else "",
        "!escalate" if actions.escalate else "",
        "!skip" if actions.skip_summarization else "",
        "!lro" if event.long_running_tool_ids else "",
        f"!err={event.error_code}" if event.error_code is not None else "",
        f"@{event.branch or ''}" if branch else "",
    ]
    return [event.author, " ".join(filter(None, [parts, *flags]))]


def _rendered_part(part: Part) -> str:
    if part.function_call is not None:
        return f"call:{part.function_call.name}"
    if part.function_response is not None:
        failed = "(error)" if "error" in part.function_response.response else ""
        return f"resp:{part.function_response.name}{failed}"
    if part.inline_data is not None:
        return f"blob:{part.inline_data.mime_type}"
    if part.text is None:
        raise VectorError(f"the notation has no form for {part}")
    return f"{'thought' if part.thought else 'text'}:{part.text}"


def rendered_contents(contents: Sequence[Content]) -> list[list[Any]]:
    """`[role, [parts]]` per content; a function response as `<resp fn>` together with its payload."""
    return [[content.role, [_seen(part) for part in content.parts]] for content in contents]


def _seen(part: Part) -> Any:
    if part.function_call is not None:
        return f"<call {part.function_call.name}>"
    if part.function_response is not None:
        return f"<resp {part.function_response.name}>", part.function_response.response
    if part.text is None:
        raise VectorError(f"the notation has no form for {part}")
    return comparable(part.text)


def comparable(text: str) -> Any:
    """A text in which what follows "parameters: " or "result: " is a JSON value."""
    for mark in ("parameters: ", "result: "):
        before, found, told = text.partition(mark)
        if found:
            try:
                return before + found, json.loads(told)
            except ValueError:
                return text
    return text


def expected_contents(given: Sequence[Any], actual: Sequence[Any]) -> list[list[Any]]:
    """The expectation in the form of `rendered_contents`; payloads that it does not tell are taken from `actual`."""
    wanted = []
    for index, (role, parts) in enumerate(given):
        seen = actual[index][1] if index < len(actual) else []
        wanted.append([role, [_wanted(part, seen[at] if at < len(seen) else None) for at, part in enumerate(parts)]])
    return wanted


def _wanted(part: str, seen: Any) -> Any:
    if part.startswith("<call ") and part.endswith(">"):
        return part
    if part.startswith("<resp ") and part.endswith(">"):
        name, has_payload, payload = part[len("<resp ") : -1].partition(" ")
        if has_payload:
            return f"<resp {name}>", json.loads(payload)
        return f"<resp {name}>", seen[1] if isinstance(seen, tuple) and len(seen) == 2 else None
    return comparable(part)
