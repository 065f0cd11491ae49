"""The pieces of a streamed answer put together. Pure: no SDK, no clock, no socket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.model import LlmResponse

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class Aggregate:
    """One answer out of its pieces, which are added in the order in which they came."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._thought: bool | None = None
        self._call: _GrowingCall | None = None
        self._role: str | None = None
        self._usage: Usage | None = None
        self._metadata: dict[str, Any] = {}
        self._end = LlmResponse()

    def add(self, piece: LlmResponse) -> None:
        """Take the next piece in. The last usage counts, since each is the sum so far."""
        self._usage = piece.usage or self._usage
        self._metadata |= piece.custom_metadata or {}
        if piece.finish_reason is not None or piece.error_code is not None:
            self._end = piece
        if piece.content is not None:
            self._role = piece.content.role or self._role
            for part in piece.content.parts:
                self._add_part(part)

    def is_whole(self) -> bool:
        """True when the service has said why it stopped; a stream that ends before that was cut off."""
        return self._end.finish_reason is not None or self._end.error_code is not None

    def response(self) -> LlmResponse:
        """All pieces as one answer; its `error_code` is that of the piece that ended it."""
        self._close_text()
        self._close_call()
        return LlmResponse(
            content=Content(role=self._role or "model", parts=list(self._parts)) if self._parts else None,
            finish_reason=self._end.finish_reason,
            error_code=self._end.error_code,
            error_message=self._end.error_message,
            usage=self._usage,
            custom_metadata=self._metadata or None,
        )

    def _add_part(self, part: Part) -> None:
        if part.function_call is not None and (self._call is not None or _is_growing(part.function_call)):
            self._grow_call(part, part.function_call)
        elif part.thought_signature is None and part.text is not None and part.carries_only_text():
            self._add_text(part.text, part.thought)
        else:
            # Google forbids joining a signed part with any other: the signature would no longer fit.
            self._close_text()
            self._parts.append(part)

    def _add_text(self, text: str, thought: bool | None) -> None:
        if bool(thought) != bool(self._thought):
            self._close_text()
        self._thought = thought
        self._text.append(text)

    def _close_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(Part(text=text, thought=self._thought))
        self._text.clear()

    def _grow_call(self, part: Part, call: FunctionCall) -> None:
        self._close_text()
        if self._call is None:
            self._call = _GrowingCall()
        self._call.add(part, call)
        if not call.will_continue:
            self._close_call()

    def _close_call(self) -> None:
        if self._call is not None:
            self._parts.append(self._call.part())
            self._call = None


def _is_growing(call: FunctionCall) -> bool:
    return bool(call.will_continue) or call.partial_args is not None


class _GrowingCall:
    """A function call whose arguments are streamed (Vertex AI, `stream_function_call_arguments`)."""

    def __init__(self) -> None:
        self._first = FunctionCall()
        self._signature: bytes | None = None
        self._args: dict[str, Any] = {}

    def add(self, part: Part, call: FunctionCall) -> None:
        """Take the next piece of the call in: its name comes in the first only, each argument by its path."""
        if not self._first.name:
            self._first = call
        self._signature = self._signature or part.thought_signature
        self._args |= call.args
        for piece in call.partial_args or ():
            _put(self._args, list(_steps(str(piece.get("jsonPath", "")))), piece)

    def part(self) -> Part:
        """The call as if it had come at once."""
        call = msgspec.structs.replace(self._first, args=self._args, partial_args=None, will_continue=None)
        return Part(function_call=call, thought_signature=self._signature)


def _steps(json_path: str) -> Iterator[str | int]:
    """The keys and indices of a path such as `$.places[0].name`."""
    for name, index, quoted in _STEP.findall(json_path.removeprefix("$")):
        yield int(index) if index else (name or quoted)


def _put(root: dict[str, Any], steps: list[str | int], piece: dict[str, Any]) -> None:
    """Set the value of one piece at its place, making the objects and lists on the way; strings are continued."""
    if not steps:
        return
    at: Any = root
    for step, following in zip(steps, steps[1:], strict=False):
        at = _entered(at, step, [] if isinstance(following, int) else {})
    key = next((key for key in _VALUES if key in piece), None)
    value = None if key in (None, "nullValue") else piece[key]
    present = _entered(at, steps[-1], None)
    _assign(at, steps[-1], present + value if isinstance(present, str) and isinstance(value, str) else value)


def _entered(at: Any, step: str | int, empty: Any) -> Any:
    """What is at the step; `empty` is put there if nothing is."""
    known = at.get(step) if isinstance(at, dict) else at[step] if step < len(at) else None
    if known is None:
        _assign(at, step, empty)
        return empty
    return known


def _assign(at: Any, step: str | int, value: Any) -> None:
    if isinstance(at, list):
        at.extend([None] * (int(step) + 1 - len(at)))
        at[int(step)] = value
    else:
        at[step] = value
