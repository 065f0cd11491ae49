"""Model calls with what was asked as lines of text, for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from actors.layers.recording.messages import RecordedCall
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.llm.model import LlmRequest
from runtime.driver.operation import local_time
from runtime.frontends.console.event_lines import event_lines

_INSTRUCTION = "system_instruction"

NO_CALL = "no model call of this turn was recorded. RAYGROVE_RECORD_REQUESTS=on records those of turns that begin from then on"


def requests_lines(calls: Sequence[RecordedCall]) -> Iterator[str]:
    """All that was asked in a turn; without any call, why there is none."""
    for number, call in enumerate(calls, 1):
        yield from request_lines(number, call)
    if not calls:
        yield NO_CALL


def call_line(number: int, call: RecordedCall) -> str:
    """A model call in a line: who asked whom when, how long it took, and what came of it."""
    asked = f"model call {number}: {call.agent} asked {call.model or 'a model'} at {local_time(call.begun_s)}"
    words = [asked, f"took {call.duration_s:.2f} s"]
    if len(call.attempts) > 1:
        words.append(f"{len(call.attempts)} attempts")
    if call.usage is not None:
        words.append(f"{call.usage.prompt_token_count or 0} tokens in, {call.usage.candidates_token_count or 0} out")
    if call.error:
        words.append(f"failed: {call.error}")
    return ", ".join(words)


def request_lines(number: int, call: RecordedCall) -> Iterator[str]:
    """A model call with all that was asked: the instruction, the configuration, the tools, and the contents in order."""
    yield call_line(number, call)
    for attempt_number, attempt in enumerate(call.attempts, 1):
        where = f" at {attempt.endpoint}" if attempt.endpoint else ""
        ended = f": {attempt.error}" if attempt.error else ""
        yield f"  attempt {attempt_number}: {attempt.model}{where}{ended}"
    if call.request is None:
        yield f"  its request was not recorded: {call.omitted}"
        return
    yield from _request(call.request)


def _request(request: LlmRequest) -> Iterator[str]:
    if request.system_instruction:
        yield "  instruction:"
        yield from (f"    {line}".rstrip() for line in request.system_instruction.splitlines())
    if config := {name: value for name, value in request.config.items() if name != _INSTRUCTION}:
        yield f"  config: {_json(config)}"
    if request.output_schema is not None:
        yield f"  output schema: {_json(request.output_schema)}"
    for tool in request.tools:
        yield f"  tool {tool.name}: {' '.join(tool.description.split())} {_json(tool.parameters or {})}"
    for number, content in enumerate(request.contents, 1):
        yield from _content(number, content)


def _content(number: int, content: Content) -> Iterator[str]:
    for kind, text in event_lines(Event(content=content)):
        first, *rest = text.splitlines() or [""]
        yield f"  content {number}, {content.role or 'user'}, {kind}: {first}"
        yield from (f"    {line}" for line in rest)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
