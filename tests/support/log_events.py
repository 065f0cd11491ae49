"""Short forms to write events and their parts in tests."""

from __future__ import annotations

from typing import Any

from actors import Blob, Content, Event, EventActions, FunctionCall, FunctionResponse, Part


def said(text: str) -> Part:
    return Part(text=text)


def thought(text: str) -> Part:
    return Part(text=text, thought=True)


def call(id: str | None, name: str = "f", **args: Any) -> Part:
    return Part(function_call=FunctionCall(id=id, name=name, args=args))


def resp(id: str | None, value: Any = None, name: str = "f") -> Part:
    return Part(function_response=FunctionResponse(id=id, name=name, response={"result": value}))


def image() -> Part:
    return Part(inline_data=Blob(data=b"\x01", mime_type="image/png"))


def event(author: str, *parts: Part, turn: str = "e-1", **more: Any) -> Event:
    """A complete event; a text may be given as it is. `transfer` sets that action, `lro` lists long-running calls."""
    actions = EventActions(transfer_to_agent=more.pop("transfer", None))
    role = more.pop("role", "user" if author == "user" else "model")
    lro = more.pop("lro", ())
    content = Content(role=role, parts=parts) if parts else None
    return Event(author=author, invocation_id=turn, content=content, long_running_tool_ids=lro, actions=actions, **more)


def shown(contents: list[Content]) -> list[tuple[str | None, list[str]]]:
    """Contents as they are written in tests: role, and per part its text, `<call f id>` or `<resp f id value>`."""
    return [(content.role, [_shown(part) for part in content.parts]) for content in contents]


def _shown(part: Part) -> str:
    if part.function_call is not None:
        return f"<call {part.function_call.name} {part.function_call.id}>"
    if part.function_response is not None:
        answer = part.function_response
        return f"<resp {answer.name} {answer.id} {answer.response.get('result')}>"
    if part.inline_data is not None:
        return f"<{part.inline_data.mime_type}>"
    return f"<thought {part.text}>" if part.thought else part.text or ""
