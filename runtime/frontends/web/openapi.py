"""The description of the API (OpenAPI 3.1), made of the operations and of the types of their messages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import metadata

import msgspec
from starlette.responses import Response

from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from runtime.driver.operation import ARTIFACT_NAME, ID
from runtime.frontends.web.call import JSON, Call, json_response
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import PROBLEM, Problem
from runtime.frontends.web.streams import TurnEnd

_REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"{(\w+)}")

_ALWAYS = (Problem, Content, Event, TurnEnd)
"""Types that are described whether or not an operation gives one: those of problems, messages and frames."""

_PARTS: dict[str, tuple[str, JsonObject]] = {
    "batch": ("the id of the map or evaluation", ID),
    "run": ("the id of the background run", ID),
    "session": ("the session's id; a slash in it is written as %2F", ID),
    "schedule": ("the schedule's name; a slash in it is written as %2F", ID),
    "turn": ("the turn's id", ID),
    "name": ("the artifact's name; a slash in it is written as %2F", ARTIFACT_NAME),
    "user": ("the user's id", ID),
}
"""What the parts of paths are, and their schemas."""


def document(operations: Sequence[HttpOperation], apps: Sequence[str], *, needs_credentials: bool) -> JsonObject:
    """The description of some operations.

    Args:
        apps: the names of the apps that are served.
        needs_credentials: requests need a token.
    """
    types = [*_ALWAYS, *dict.fromkeys(each for of in operations for each in (of.body, of.gives) if each is not None)]
    described, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(types, described, strict=True))
    for component in components.values():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
    paths: dict[str, dict[str, object]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas, apps, needs_credentials)
    bearer: JsonObject = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "raygrove", "version": metadata.version("raygrove")},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": bearer if needs_credentials else {}},
        "security": [{"bearer": []}] if needs_credentials else [],
    }


def _operation(
    operation: HttpOperation, schemas: dict[object, JsonObject], apps: Sequence[str], needs_credentials: bool
) -> JsonObject:
    says = inspect.getdoc(operation.handle) or ""
    answers: JsonObject = {media: {} for media in operation.gives_media}
    if operation.gives is not None:
        answers[JSON] = {"schema": schemas[operation.gives]}
    success: JsonObject = {"description": says.partition("\n")[0]}
    if answers:
        success["content"] = answers
    problem = {"description": "The request failed.", "content": {PROBLEM: {"schema": schemas[Problem]}}}
    found: JsonObject = {
        "operationId": operation.name,
        "summary": says.partition("\n")[0].rstrip("."),
        "description": says,
        "parameters": list(_parameters(operation, apps, needs_credentials)),
        "responses": {str(operation.status): success, **_more(operation), "4XX": problem, "5XX": problem},
    }
    if operation.is_open:
        found["security"] = []
    taken: JsonObject = {media: {} for media in operation.takes_media}
    if operation.body is not None:
        taken[JSON] = {"schema": schemas[operation.body]}
    if taken:
        found["requestBody"] = {"required": operation.body is not None and not _is_optional(operation.body), "content": taken}
    return found


def _is_optional(body: type[msgspec.Struct]) -> bool:
    """True when nothing stands for a body, as none of its fields is required."""
    return not any(field.required for field in msgspec.structs.fields(body))


def _more(operation: HttpOperation) -> JsonObject:
    return {str(status): {"description": says} for status, says in operation.statuses}


def _parameters(operation: HttpOperation, apps: Sequence[str], needs_credentials: bool) -> Iterator[JsonObject]:
    for part in _PART.findall(operation.path):
        says, schema = ("the app", {"enum": list(apps)}) if part == "app" else _PARTS[part]
        yield {"name": part, "in": "path", "required": True, "description": says, "schema": schema}
    if operation.users != "none" and "{user}" not in operation.path:
        says = "the user; credentials that are bound to a user need not name it"
        required = operation.users == "one" and not needs_credentials
        yield {"name": "user", "in": "query", "required": required, "description": says, "schema": ID}
    if operation.query is not None:
        _, components = msgspec.json.schema_components([operation.query], ref_template=_REFERENCE)
        schema = components[operation.query.__name__]
        for name, of_field in schema["properties"].items():
            yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": of_field}
    for name, says, of_header in operation.headers:
        yield {"name": name, "in": "header", "required": False, "description": says, "schema": dict(of_header)}


def describing(operations: Sequence[HttpOperation], apps: Sequence[str], *, needs_credentials: bool) -> HttpOperation:
    """The operation that gives the description of others, and of itself: see `document`."""

    async def get_openapi(call: Call) -> Response:
        """Read this description."""
        return json_response(whole)

    operation = HttpOperation("GET", "/openapi.json", get_openapi, gives_media=[JSON], users="none", is_open=True)
    whole = document([*operations, operation], apps, needs_credentials=needs_credentials)
    return operation
