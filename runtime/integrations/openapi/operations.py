"""The operations of an OpenAPI document, as a model is to call them, and the URL that their requests go to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import urljoin

from actors.errors import DefinitionError
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm import FunctionDeclaration
from runtime.integrations.openapi.document import Document
from runtime.integrations.openapi.schemas import ARTIFACT, Schemas, is_binary

_VARIABLE = re.compile(r"\{([^{}]+)\}")


def server_url(servers: Sequence[object], given: str | None, base: str | None, variables: Mapping[str, str]) -> str:
    """The URL of the first server, without a slash at its end.

    Args:
        servers: as the document has them.
        given: a URL that the user has given in their place.
        base: the URL of the document; None when it is not known.
        variables: values for variables in the URL; others have their defaults.

    Raises:
        DefinitionError: there is no whole URL, or a variable has a value that it cannot have.
    """
    server: JsonMapping = servers[0] if servers and isinstance(servers[0], Mapping) else {}
    url = given if given is not None else _filled_in(str(server.get("url", "/")), server.get("variables") or {}, variables)
    if base is not None:
        url = urljoin(base, url)
    if not url.lower().startswith(("http://", "https://")):
        raise DefinitionError(
            f"the document names no whole URL of its server ({url!r}): give OpenApiTools(…, server='https://…')"
        )
    return url.rstrip("/")


def _filled_in(url: str, known: Mapping[str, JsonMapping], values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        variable = known.get(name) or {}
        chosen = values.get(name, variable.get("default"))
        if chosen is None:
            raise DefinitionError(
                f"the server {url} has no value for {name!r}: give OpenApiTools(…, server_variables={{{name!r}: …}})"
            )
        allowed = variable.get("enum")
        if allowed and chosen not in allowed:
            raise DefinitionError(f"the server {url} takes {', '.join(map(str, allowed))} for {name!r}, not {chosen!r}")
        return str(chosen)

    return _VARIABLE.sub(value, url)


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
SAFE = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

MAX_NAME = 64
MAX_DESCRIPTION = 1_024

Place = Literal["path", "query", "header", "cookie"]
BodyKind = Literal["json", "form", "multipart", "text", "data"]

_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Headers that OpenAPI says are no parameters."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation.

    Attributes:
        argument: its name for models.
        name: its name in requests.
        style: how a list or an object is written, in OpenAPI's words; "json" for one that is written as JSON.
    """

    argument: str
    name: str
    place: Place
    schema: JsonObject
    is_required: bool
    style: str
    explode: bool
    allow_reserved: bool = False


@dataclass(frozen=True)
class Body:
    """The body of an operation's requests.

    Attributes:
        argument: its name for models.
        files: the fields of a form for which models name artifacts.
    """

    argument: str
    media_type: str
    kind: BodyKind
    schema: JsonObject
    is_required: bool
    files: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Operation:
    """An operation: a request that a model can have made.

    Attributes:
        name: unique in the document.
        url: of its server, without the path.
        takes_credentials: False for an operation that says that it needs none.
    """

    name: str
    description: str
    method: str
    path: str
    url: str
    parameters: Sequence[Parameter]
    body: Body | None
    takes_credentials: bool = True

    @property
    def is_unsafe(self) -> bool:
        """True when it may change something: its method is not GET or HEAD."""
        return self.method not in SAFE

    def declaration(self, name: str, without: Collection[tuple[str, str]] = ()) -> FunctionDeclaration:
        """The operation as a model sees it.

        Args:
            name: what the model calls it.
            without: parameters that are filled in, by place and name.
        """
        taken = [each for each in self.parameters if (each.place, each.name) not in without]
        given: list[Parameter | Body] = [*taken, *([self.body] if self.body is not None else ())]
        if not given:
            return FunctionDeclaration(name=name, description=self.description)
        schema: JsonObject = {"type": "object", "properties": {each.argument: each.schema for each in given}}
        if required := [each.argument for each in given if each.is_required]:
            schema["required"] = required
        return FunctionDeclaration(name=name, description=self.description, parameters=schema)


def operations(
    document: Document, *, server: str | None, base: str | None, variables: Mapping[str, str], prefix: str = ""
) -> list[Operation]:
    """All operations of a document, in its order.

    Args:
        server: the URL that they are sent to; None: the first server of the operation, of its path or of the document.
        base: the URL of the document, to which URLs of servers may be relative; None when it is not known.
        variables: values of variables in the URLs of servers.
        prefix: what names will begin with, which counts in their length.

    Raises:
        DefinitionError: a part of the document is wrong, or no server is known.
    """
    reader = _Reader(document, Schemas(document), server, base, variables, MAX_NAME - len(prefix))
    return list(reader.operations())


class _Reader:
    def __init__(
        self,
        document: Document,
        schemas: Schemas,
        server: str | None,
        base: str | None,
        variables: Mapping[str, str],
        longest: int,
    ) -> None:
        self._document = document
        self._schemas = schemas
        self._server = server
        self._base = base
        self._variables = variables
        self._longest = longest
        self._names: set[str] = set()

    def operations(self) -> Iterator[Operation]:
        for path, given in cast(JsonMapping, self._document.root.get("paths", {})).items():
            item = self._document.followed(given)
            for method in METHODS:
                if isinstance(item.get(method), Mapping):
                    try:
                        yield self._operation(path, method, item, self._document.followed(item[method]))
                    except DefinitionError as error:
                        raise DefinitionError(f"{method.upper()} {path}: {error}") from None

    def _operation(self, path: str, method: str, item: JsonMapping, given: JsonMapping) -> Operation:
        arguments: set[str] = set()
        parameters = [self._parameter(each, arguments) for each in self._parameters(item, given)]
        described = [text for text in (given.get("summary"), given.get("description")) if isinstance(text, str)]
        servers: Sequence[object] = next(
            (each["servers"] for each in (given, item, self._document.root) if each.get("servers")), []
        )
        return Operation(
            name=unique_name(str(given.get("operationId") or f"{method} {path}"), self._names, self._longest),
            description="\n".join(dict.fromkeys(described))[:MAX_DESCRIPTION] or f"{method.upper()} {path}",
            method=method.upper(),
            path=path,
            url=server_url(servers, self._server, self._base, self._variables),
            parameters=tuple(parameters),
            body=self._body(given.get("requestBody"), arguments),
            takes_credentials=given.get("security") != [],
        )

    def _parameters(self, item: JsonMapping, given: JsonMapping) -> list[JsonObject]:
        """The parameters of a path and of its operation, which wins where both have one."""
        found: dict[tuple[str, str], JsonObject] = {}
        for each in [*(item.get("parameters") or ()), *(given.get("parameters") or ())]:
            parameter = self._document.followed(each)
            name, place = parameter.get("name"), parameter.get("in")
            if not isinstance(name, str) or place not in _STYLES:
                raise DefinitionError(f"a parameter needs a `name` and an `in` out of {', '.join(_STYLES)}: {parameter!r:.100}")
            if place != "header" or name.lower() not in _IGNORED_HEADERS:
                found[place, name] = parameter
        return list(found.values())

    def _parameter(self, given: JsonMapping, arguments: set[str]) -> Parameter:
        place = cast(Place, given["in"])
        content = given.get("content")
        if isinstance(content, Mapping) and content:
            style, schema = "json", self._document.followed(next(iter(content.values()))).get("schema")
        else:
            style, schema = str(given.get("style") or _STYLES[place]), given.get("schema")
        return Parameter(
            argument=unique_name(given["name"], arguments, MAX_NAME),
            name=given["name"],
            place=place,
            schema=_described(self._schemas.of(schema), given.get("description")),
            is_required=place == "path" or given.get("required") is True,
            style=style,
            explode=given["explode"] if isinstance(given.get("explode"), bool) else style == "form",
            allow_reserved=given.get("allowReserved") is True,
        )

    def _body(self, given: object, arguments: set[str]) -> Body | None:
        body = self._document.followed(given)
        content = body.get("content")
        if not isinstance(content, Mapping) or not content:
            return None
        media_type, kind = min(((each, _kind(each)) for each in content), key=lambda each: _PREFERRED.index(each[1]))
        raw = self._document.followed(content[media_type]).get("schema", {})
        schema = self._schemas.of(raw)
        files: frozenset[str] = frozenset()
        if kind == "data":
            schema = {"type": "string", "description": ARTIFACT}
        elif kind == "text" and not schema:
            schema = {"type": "string"}
        elif kind == "multipart":
            files = self._files(self._document.followed(raw))
        return Body(
            argument=unique_name("body", arguments, MAX_NAME),
            media_type=media_type,
            kind=kind,
            schema=_described(schema, body.get("description")),
            is_required=body.get("required") is True,
            files=files,
        )

    def _files(self, schema: JsonMapping) -> frozenset[str]:
        found: set[str] = set()
        for part in (schema, *(self._document.followed(each) for each in schema.get("allOf") or ())):
            for name, each in (part.get("properties") or {}).items():
                field = self._document.followed(each)
                if is_binary(field) or is_binary(self._document.followed(field.get("items") or {"type": "object"})):
                    found.add(name)
        return frozenset(found)


_PREFERRED: Sequence[BodyKind] = ("json", "form", "multipart", "text", "data")


def _kind(media_type: str) -> BodyKind:
    plain = media_type.partition(";")[0].strip().lower()
    if plain in ("application/json", "*/*", "application/*") or plain.endswith("+json"):
        return "json"
    if plain == "application/x-www-form-urlencoded":
        return "form"
    if plain.startswith("multipart/"):
        return "multipart"
    return "text" if plain.startswith("text/") or plain.endswith(("/xml", "+xml", "/yaml")) else "data"


def _described(schema: JsonObject, description: object) -> JsonObject:
    """The schema with the description of what has it, and its own."""
    texts = [text for text in (description, schema.get("description")) if isinstance(text, str) and text]
    return {**schema, "description": "\n".join(dict.fromkeys(texts))} if texts else schema


def unique_name(wanted: str, taken: set[str], longest: int) -> str:
    """A name that every model's service takes, and that is not taken; it is noted as taken.

    Args:
        longest: characters that it may have.
    """
    safe = _UNSAFE.sub("_", wanted).strip("_") or "unnamed"
    if safe[0].isdigit():
        safe = f"_{safe}"
    name, number = safe[:longest].rstrip("_") or "unnamed"[:longest], 1
    while name in taken:
        number += 1
        ending = f"_{number}"
        name = f"{safe[: longest - len(ending)]}{ending}"
    taken.add(name)
    return name
