"""ADK's paths of apps, sessions, turns, artifacts and memory. Keys are in camelCase or snake_case, unknown ones passed over."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from importlib import metadata
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from actors.errors import ClusterError, InvocationNotFoundError, RaygroveError, SessionNotFoundError, TurnError
from actors.messages import codec
from actors.messages.codec import from_plain
from actors.messages.config import OnConcurrentTurn
from actors.messages.content import Part
from actors.messages.event import Event, new_event_id, now_s
from actors.messages.json_types import JsonObject
from actors.messages.session import Session
from runtime.driver.turns.turn import Turn
from runtime.frontends.web.adk.checkpoints import Checkpoints
from runtime.frontends.web.adk.events import AdkEvents, adk_events, answered, frames_of, has_answers
from runtime.frontends.web.api.sessions import change_state
from runtime.frontends.web.api.turn_forms import TurnOptions, run_config
from runtime.frontends.web.api.waiting import result_of, started_id, unless_left
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.operation import CLIENT_LEFT, STREAM, HttpOperation
from runtime.frontends.web.problems import HttpError, NotFoundError, log_failed_turn, problem_of
from runtime.frontends.web.streams import EventStream, frame

T = TypeVar("T")

_WORD = re.compile(r"_([a-z0-9])")


class RunAgentRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn to run: see RunAgentRequest of ADK, which has no `on_concurrent_turn`."""

    app_name: str
    user_id: str
    session_id: str
    new_message: JsonObject | None = None
    streaming: bool = False
    state_delta: JsonObject | None = None
    function_call_event_id: str | None = None
    invocation_id: str | None = None
    custom_metadata: JsonObject | None = None
    on_concurrent_turn: OnConcurrentTurn | None = None


class NewAdkSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session to create: see CreateSessionRequest of ADK."""

    session_id: str | None = None
    state: JsonObject | None = None
    events: Sequence[JsonObject] | None = None


class SessionUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes of state."""

    state_delta: JsonObject


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact to store."""

    filename: str
    artifact: JsonObject


class MemoryUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The session to add to memory."""

    session_id: str


class SessionForm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session, as ADK's clients know it."""

    id: str
    app_name: str
    user_id: str
    state: JsonObject
    events: Sequence[JsonObject] = ()
    last_update_time: float = 0.0


async def body_of(call: Call, type: type[T]) -> T:
    """The body of a request. Raises HttpError with ADK's status for it, 422, when a field is missing or wrong."""
    given: JsonObject | None = await call.body(JsonObject | None)  # type: ignore[arg-type]
    plain = {_WORD.sub(lambda found: found[1].upper(), name): value for name, value in (given or {}).items()}
    try:
        return codec.convert(plain, type)
    except msgspec.ValidationError as error:
        raise HttpError(422, f"the body is wrong: {error}") from None


async def list_apps(call: Call) -> object:
    """List the apps."""
    names = sorted(call.served.runtimes)
    if call.request.query_params.get("detailed") != "true":
        return names
    return {"apps": [await _app_info(call, name) for name in names]}


async def get_app_info(call: Call) -> JsonObject:
    """Describe an app."""
    name = call.runtime.app_name
    found = await _app_info(call, name)
    tree = await call.runtime.aio.tree(limit=500)
    if tree.kind != "llm":
        raise HttpError(400, f"the root agent of {name!r} is no LlmAgent")
    agents = {
        agent.name: {
            "name": agent.name,
            "description": agent.description,
            "instruction": "",
            "tools": [],
            "sub_agents": [child.name for child in agent.children],
        }
        for agent in tree
    }
    return {**found, "agents": agents}


async def _app_info(call: Call, name: str) -> JsonObject:
    root = await call.served.runtime(name).aio.tree(depth=0)
    return {"name": name, "rootAgentName": root.name, "description": root.description, "language": "python"}


async def get_version(call: Call) -> JsonObject:
    """Read the version."""
    return {"version": metadata.version("raygrove"), "language": "python", "language_version": platform.python_version()}


async def get_health(call: Call) -> JsonObject:
    """Tell that the process lives."""
    return {"status": "ok"}


async def list_sessions(call: Call) -> Sequence[SessionForm]:
    """List the sessions of a user."""
    return [_form(session) for session in await call.runtime.aio.sessions.list(call.user_id)]


async def create_session(call: Call) -> SessionForm:
    """Create a session, with events of an earlier conversation if any are given."""
    given = await body_of(call, NewAdkSession)
    session_id = call.session_id if "session" in call.request.path_params else given.session_id
    call.principal.check_state(given.state)
    events = [_imported(number, each) for number, each in enumerate(given.events or ())]
    aio = call.runtime.aio
    session = await aio.sessions.create(call.user_id, session_id, given.state)
    for event in events:
        await aio.sessions.append_event(session.user_id, session.id, event)
    return _form(session)


def _imported(number: int, given: JsonObject) -> Event:
    """An event of an earlier conversation. Raises HttpError when it does more than say something."""
    try:
        event = codec.convert({name: value for name, value in given.items() if name != "actions"}, Event)
    except msgspec.ValidationError as error:
        raise HttpError(422, f"event {number} is wrong: {error}") from None
    if event.long_running_tool_ids or any(given.get("actions", {}).values()):
        raise HttpError(400, f"event {number} of the new session has actions or long-running calls: only what was said is taken")
    return msgspec.structs.replace(event, seq=0, id=event.id or new_event_id(), timestamp=event.timestamp or now_s())


async def get_session(call: Call) -> SessionForm:
    """Read a session with its events."""
    session = await call.runtime.aio.sessions.get(call.user_id, call.session_id)
    if session is None:
        raise SessionNotFoundError(call.path("app"), call.user_id, call.session_id)
    topology = await call.runtime.aio.topology()
    if not topology.root.is_resumable:
        return _form(session, for_operator=call.principal.is_admin)
    is_over = await _is_over(call, session)
    return _form(session, for_operator=call.principal.is_admin, checkpoints=Checkpoints(topology), is_over=is_over)


async def _is_over(call: Call, session: Session) -> bool:
    """True when the newest turn of a session does not run."""
    newest = session.events[-1].invocation_id if session.events else ""
    try:
        turn = await call.runtime.aio.turns.get(session.user_id, session.id, newest) if newest else None
    except InvocationNotFoundError:
        # Events that a client has brought along belong to no turn.
        return False
    return turn is not None and turn.state not in ("waiting", "running")


async def update_session(call: Call) -> SessionForm:
    """Change the state of a session."""
    given = await body_of(call, SessionUpdate)
    await change_state(call, given.state_delta)
    return await get_session(call)


async def delete_session(call: Call) -> Response:
    """Delete a session."""
    await call.runtime.aio.sessions.delete(call.user_id, call.session_id)
    return json_response(None)


def _form(session: Session, **options: Any) -> SessionForm:
    return SessionForm(
        id=session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        state=session.state,
        events=adk_events(session.events, **{"for_operator": False, **options}),
        last_update_time=session.last_update_time,
    )


async def list_artifacts(call: Call) -> Sequence[str]:
    """List the names of artifacts."""
    return await call.runtime.aio.artifacts.list_keys(call.user_id, call.session_id)


async def list_versions(call: Call) -> Sequence[int]:
    """List the versions of an artifact."""
    return await call.runtime.aio.artifacts.list_versions(call.user_id, call.session_id, call.path("name"))


async def list_version_metadata(call: Call) -> Sequence[JsonObject]:
    """Describe the versions of an artifact."""
    return [await _version(call, call.path("name"), version) for version in await list_versions(call)]


async def get_version_metadata(call: Call) -> JsonObject:
    """Describe a version of an artifact."""
    return await _version(call, call.path("name"), _number(call))


async def load_artifact(call: Call) -> Part:
    """Read an artifact, the latest version or the one in the path or in the query."""
    version = _number(call) if "version" in {*call.request.path_params, *call.request.query_params} else None
    return await _loaded(call, call.path("name"), version)


async def save_artifact(call: Call) -> JsonObject:
    """Store a new version of an artifact."""
    given = await body_of(call, NewArtifact)
    part = from_plain(Part, given.artifact, "artifact")
    version = await call.runtime.aio.artifacts.save(call.user_id, call.session_id, given.filename, part)
    return await _version(call, given.filename, version)


async def delete_artifact(call: Call) -> Response:
    """Delete an artifact."""
    await call.runtime.aio.artifacts.delete(call.user_id, call.session_id, call.path("name"))
    return json_response(None)


def _number(call: Call) -> int:
    given = call.path("version") if "version" in call.request.path_params else call.request.query_params["version"]
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise HttpError(422, f"version must be a whole number, not {given!r}")
    return int(given)


async def _loaded(call: Call, name: str, version: int | None) -> Part:
    part = await call.runtime.aio.artifacts.load(call.user_id, call.session_id, name, version)
    if part is None:
        raise NotFoundError(f"artifact {name!r} was not found")
    return part


async def _version(call: Call, name: str, version: int) -> JsonObject:
    part = await _loaded(call, name, version)
    uri = (
        f"raygrove://apps/{call.path('app')}/users/{call.user_id}/sessions/{call.session_id}/artifacts/{name}/versions/{version}"
    )
    kind = {"mimeType": part.inline_data.mime_type} if part.inline_data is not None and part.inline_data.mime_type else {}
    return {"version": version, "canonicalUri": uri, "customMetadata": {}, **kind}


async def add_to_memory(call: Call) -> Response:
    """Add a session to memory."""
    given = await body_of(call, MemoryUpdate)
    await call.runtime.aio.memory.add_session(call.user_id, given.session_id)
    return json_response(None)


async def run(call: Call) -> Response:
    """Run a turn, and answer with its events."""
    given = await body_of(call, RunAgentRequest)
    with call.slot():
        turn = await _turn(call, given, streams=False)
        result = await unless_left(call, result_of(call, turn))
    if result is None:
        turn.detach()
        return Response(status_code=CLIENT_LEFT)
    checkpoints = await _checkpoints(call, given)
    if result.events:
        await _catch_up(call, given, checkpoints, result.events[0])
    options = {"for_operator": call.principal.is_admin, "checkpoints": checkpoints, "custom_metadata": given.custom_metadata}
    return json_response(adk_events(result.events, is_over=True, **options))


async def run_sse(call: Call) -> Response:
    """Run a turn, and stream its events."""
    given = await body_of(call, RunAgentRequest)
    with call.slot() as slot:
        turn = await _turn(call, given, streams=given.streaming)
        await started_id(call, turn)
        frames = _frames(call, given, turn)
        return EventStream(frames, call.served.slots, slot, keep_alive_s=call.served.keep_alive_s)


async def _turn(call: Call, given: RunAgentRequest, *, streams: bool) -> Turn:
    user_id = call.principal.check_user(given.user_id)
    runtime = call.served.runtime(given.app_name)
    if given.new_message is None:
        if given.invocation_id is None:
            raise HttpError(422, "newMessage is missing")
        turn = await runtime.aio.turns.get(user_id, given.session_id, given.invocation_id)
        place: dict[str, Any] = {"user_id": user_id, "session_id": given.session_id, "invocation_id": given.invocation_id}
        # As ADK's Runner does: what has failed is run on, and what has not is joined.
        return runtime.retry(**place, on_leave="continue") if turn.state == "failed" else runtime.attach(**place)
    call.principal.check_state(given.state_delta)
    call.principal.check_message(given.new_message)
    message, is_answer = given.new_message, has_answers(given.new_message)
    if is_answer:
        # The session has to be there: an answer needs a call.
        message = answered(message, await runtime.aio.turns.pending(user_id, given.session_id))
    options = TurnOptions(custom_metadata=given.custom_metadata, on_concurrent_turn=given.on_concurrent_turn)
    return runtime.run(
        user_id=user_id,
        session_id=given.session_id,
        message=message,
        run_config=run_config(call, options, streams=streams),
        state_delta=given.state_delta,
        # An answer goes on with the turn that made the call, whatever id the client names.
        invocation_id=given.invocation_id if not is_answer else None,
        on_leave="continue",
    )


async def _checkpoints(call: Call, given: RunAgentRequest) -> Checkpoints | None:
    """Derives the checkpoints of a turn; None where the App is not resumable."""
    topology = await call.served.runtime(given.app_name).aio.topology()
    return Checkpoints(topology) if topology.root.is_resumable else None


async def _catch_up(call: Call, given: RunAgentRequest, checkpoints: Checkpoints | None, first: Event) -> None:
    """Of a turn that an answer continues the checkpoints go on from what stands before its first new event."""
    if checkpoints is None or given.new_message is None or not has_answers(given.new_message):
        return
    aio, place = call.served.runtime(given.app_name).aio, (given.user_id, given.session_id)
    after_seq = (await aio.turns.get(*place, first.invocation_id)).first_seq - 1
    while page := await aio.sessions.events(*place, after_seq=after_seq, before_seq=first.seq):
        checkpoints.pass_over(event for event in page if event.invocation_id == first.invocation_id)
        after_seq = page[-1].seq


async def _frames(call: Call, given: RunAgentRequest, turn: Turn) -> AsyncIterator[bytes]:
    splits, for_operator = given.function_call_event_id is None, call.principal.is_admin
    checkpoints = await _checkpoints(call, given)
    view = AdkEvents(for_operator=for_operator, checkpoints=checkpoints, custom_metadata=given.custom_metadata)
    last_seq = 0
    try:
        async with aclosing(aiter(turn)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.seq and not last_seq:
                    await _catch_up(call, given, checkpoints, event)
                last_seq = event.seq or last_seq
                for shown in view.shown(event):
                    for each in frames_of(shown, splits=splits):
                        yield frame("", each, event.seq)
        for shown in view.ended():
            yield frame("", shown, last_seq)
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("", _error(turn, error, for_operator=for_operator))
    finally:
        turn.detach()


def _error(turn: Turn, error: RaygroveError, *, for_operator: bool) -> JsonObject:
    if isinstance(error, TurnError):
        log_failed_turn(turn.invocation_id, str(error))
    problem = problem_of(error, for_operator=for_operator)
    details = {"error_type": problem.type, "error_message": problem.detail, "timestamp": time.time()}
    return {"error": f"{problem.type}: {problem.detail}", "error_details": details}


_USER = "/apps/{app}/users/{user}"
_SESSION = f"{_USER}/sessions/{{session}}"
_ARTIFACT = f"{_SESSION}/artifacts/{{name:path}}"

OPERATIONS = [
    HttpOperation("GET", "/list-apps", list_apps, users="none"),
    HttpOperation("GET", "/version", get_version, is_open=True),
    HttpOperation("GET", "/health", get_health, is_open=True),
    HttpOperation("GET", "/apps/{app}/app-info", get_app_info, users="none"),
    HttpOperation("GET", f"{_USER}/sessions", list_sessions),
    HttpOperation("POST", f"{_USER}/sessions", create_session),
    HttpOperation("GET", _SESSION, get_session),
    HttpOperation("POST", _SESSION, create_session),
    HttpOperation("PATCH", _SESSION, update_session),
    HttpOperation("DELETE", _SESSION, delete_session),
    HttpOperation("GET", f"{_SESSION}/artifacts", list_artifacts),
    HttpOperation("POST", f"{_SESSION}/artifacts", save_artifact),
    HttpOperation("GET", f"{_ARTIFACT}/versions/{{version}}/metadata", get_version_metadata),
    HttpOperation("GET", f"{_ARTIFACT}/versions/metadata", list_version_metadata),
    HttpOperation("GET", f"{_ARTIFACT}/versions/{{version}}", load_artifact),
    HttpOperation("GET", f"{_ARTIFACT}/versions", list_versions),
    HttpOperation("GET", _ARTIFACT, load_artifact),
    HttpOperation("DELETE", _ARTIFACT, delete_artifact),
    HttpOperation("PATCH", f"{_USER}/memory", add_to_memory),
    HttpOperation("POST", "/run", run),
    HttpOperation("POST", "/run_sse", run_sse, gives_media=[STREAM]),
]
"""ADK's paths, special ones before general ones."""
