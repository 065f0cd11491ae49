"""A program is run by ADK's own Runner and by a Runtime, and all that its models are asked, and all that it says, is kept."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import BaseModel

from actors import Event
from runtime.driver.runtime import Runtime
from tests.adk import programs

_ID = re.compile(r"(?:adk-|call-|e-)?(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""Ids that each run makes anew."""

_TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+(?:\+00:00)?|(?<=latency_ms\": )[\d.e-]+")


class Program(NamedTuple):
    """A program, and the conversation with it.

    Attributes:
        name: names it in the list of what differs.
        make: makes its root, or its App.
        said: what the user says, each with the session: a text, or the response to all calls that wait.
        stream: whether its models stream.
    """

    name: str
    make: Callable[[], Any]
    said: Sequence[tuple[str, str | dict[str, Any]]] = (("s1", "hi"), ("s1", "again"))
    stream: bool = False


class Whole(NamedTuple):
    """What came of a program.

    Attributes:
        requests: of its models, in their order.
        events: what readers were shown.
        state: of its sessions, at the end.
        error: the class of what a turn has raised; "" for nothing.
    """

    requests: list[dict[str, Any]]
    events: list[dict[str, Any]]
    state: dict[str, Any]
    error: str


def _plain(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return str(value)


def _evened(value: dict[str, Any]) -> dict[str, Any]:
    """Plain data without what each run makes anew."""
    plain: dict[str, Any] = json.loads(_TIME.sub("0", _ID.sub("id", json.dumps(value, default=_plain))))
    return plain


def _parts(content: Any) -> list[Any]:
    found = []
    for part in content.parts or ():
        shown = part.model_dump(mode="json", exclude_none=True) if hasattr(part, "model_dump") else _own(part)
        for name in ("function_call", "function_response"):
            if name in shown:
                shown[name].pop("id", None)
        if shown:
            found.append(shown)
    return found


def _own(part: Any) -> Any:
    from runtime.integrations.adk.contents import genai_part

    return genai_part(part).model_dump(mode="json", exclude_none=True)


def request_of(asked: Any, stream: bool) -> dict[str, Any]:
    """All that a model is given, field by field."""
    config = asked.config
    kept = {
        name: value
        for name in type(config).model_fields
        if (value := getattr(config, name)) is not None and name not in ("system_instruction", "tools")
    }
    functions = [each for tool in config.tools or () for each in getattr(tool, "function_declarations", None) or ()]
    others = [_plain(tool) for tool in config.tools or () if not getattr(tool, "function_declarations", None)]
    return _evened(
        {
            "model": asked.model,
            "system_instruction": config.system_instruction,
            "contents": [{"role": content.role, "parts": _parts(content)} for content in asked.contents],
            "functions": [each.name for each in functions],
            "declarations": {each.name: _declared(each) for each in functions},
            "other_tools": others,
            "tools_dict": sorted(asked.tools_dict),
            "config": kept,
            "stream": stream,
        }
    )


def _declared(given: types.FunctionDeclaration) -> Any:
    """A declaration: its parameters as JSON schema, in whatever form they are given."""
    schema: Any = given.parameters_json_schema
    if schema is None and given.parameters is not None:
        schema = given.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    if schema is not None and not isinstance(schema, dict):
        schema = schema.model_json_schema()
    return {"description": given.description, "parameters": schema if schema and schema.get("properties") else None}


def event_of(event: Any) -> dict[str, Any]:
    """What readers are shown of an event of either kind."""
    actions = event.actions
    shown: dict[str, Any] = {
        "author": event.author,
        "parts": _parts(event.content) if event.content else [],
        "partial": bool(event.partial),
        "output": event.output,
        "error": event.error_code,
        "state": dict(actions.state_delta),
        "artifacts": dict(actions.artifact_delta),
        "transfer": actions.transfer_to_agent,
        "escalate": bool(actions.escalate),
    }
    return _evened({name: value for name, value in shown.items() if value not in (None, False, [], {})})


@contextmanager
def _recording() -> Iterator[list[dict[str, Any]]]:
    """Keep what the models of all programs are asked."""
    asked: list[dict[str, Any]] = []
    answer = programs.Scripted.generate_content_async

    async def recorded(self: Any, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        asked.append(request_of(llm_request, stream))
        async for response in answer(self, llm_request, stream):
            yield response

    programs.Scripted.generate_content_async = recorded  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        programs.Scripted.generate_content_async = answer  # type: ignore[method-assign]


def _config(program: Program) -> RunConfig:
    return RunConfig(streaming_mode=StreamingMode.SSE if program.stream else StreamingMode.NONE)


def by_adk(program: Program) -> Whole:
    """What comes of a program in ADK's own Runner."""
    with _recording() as asked:
        return asyncio.run(_by_adk(program, asked))


def _message(said: str | dict[str, Any], events: Sequence[Any]) -> types.Content:
    """What the user says, after these events."""
    if isinstance(said, str):
        return types.Content(role="user", parts=[types.Part(text=said)])
    waiting = {each for event in events for each in event.long_running_tool_ids or ()}
    calls = [part.function_call for event in events if event.content for part in event.content.parts or () if part.function_call]
    answers = [types.FunctionResponse(id=call.id, name=call.name, response=said) for call in calls if call.id in waiting]
    return types.Content(role="user", parts=[types.Part(function_response=answer) for answer in answers])


async def _by_adk(program: Program, asked: list[dict[str, Any]]) -> Whole:
    root = program.make()
    # Programs of theirs need no name that a folder has.
    runner = InMemoryRunner(app=root if isinstance(root, App) else App(name="whole", root_agent=root))
    place = {"app_name": runner.app_name, "user_id": "ada"}
    events: list[Any] = []
    error = ""
    for session_id, said in program.said:
        if await runner.session_service.get_session(**place, session_id=session_id) is None:
            await runner.session_service.create_session(**place, session_id=session_id)
        message = _message(said, events)
        try:
            given = runner.run_async(user_id="ada", session_id=session_id, new_message=message, run_config=_config(program))
            async for event in given:
                events.append(event)
        except Exception as raised:
            error = type(raised).__name__
    sessions = [await runner.session_service.get_session(**place, session_id=each) for each, _ in program.said]
    states = {session.id: _evened(dict(session.state)) for session in sessions if session is not None}
    return Whole(asked, [event_of(event) for event in events], states, error)


def by_raygrove(program: Program) -> Whole:
    """What comes of a program in a Runtime."""
    with _recording() as asked:
        options: dict[str, Any] = {
            "session_store": "sqlite://",
            "memory_store": "sqlite://",
            "artifact_store": f"memory://{uuid.uuid4().hex}",
        }
        with Runtime(program.make(), app_name="whole", engine="local", **options) as rt:
            events: list[Event] = []
            error = ""
            for session_id, said in program.said:
                message = _message(said, events)
                try:
                    for event in rt.run(user_id="ada", session_id=session_id, message=message, run_config=_config(program)):
                        events.append(event)
                except Exception as raised:
                    error = type(raised).__name__
            sessions = [rt.sessions.get("ada", each) for each in dict(program.said)]
            states = {session.id: _evened(dict(session.state)) for session in sessions if session is not None}
    return Whole(asked, [event_of(event) for event in events], states, error)
