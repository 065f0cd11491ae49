"""A call of an operation as an HTTP request: arguments become parts of the URL, headers and a body, as OpenAPI's styles say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote

from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from runtime.integrations.openapi.operations import Body, Operation, Parameter

RESERVED = ":/?#[]@!$&'()*+,;="

Pairs = list[tuple[str, str]]

_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


@dataclass
class WireRequest:
    """An HTTP request.

    Attributes:
        query: the query of the URL, encoded.
        content: the body; None without one.
        fields: the texts of a multipart form.
        files: by field of a multipart form, the artifacts to send.
        artifact: the artifact that is the body.
    """

    method: str
    url: str
    query: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    fields: list[tuple[str, str]] | None = None
    files: list[tuple[str, str]] = field(default_factory=list)
    artifact: str | None = None

    @property
    def whole_url(self) -> str:
        """The URL with its query."""
        return f"{self.url}?{'&'.join(self.query)}" if self.query else self.url

    @property
    def shown(self) -> str:
        """The request in an error: without the query, which may have a key."""
        return f"{self.method} {self.url}"


def request_of(operation: Operation, args: JsonMapping) -> WireRequest:
    """The request of a call, without credentials.

    Args:
        args: the arguments, by the names that models see.

    Raises:
        ValueError: an argument is missing, or cannot stand where it belongs.
    """
    missing = [each.argument for each in operation.parameters if each.is_required and each.argument not in args]
    body = operation.body
    if body is not None and body.is_required and body.argument not in args:
        missing.append(body.argument)
    if missing:
        raise ValueError(f"missing arguments: {', '.join(missing)}")
    in_path: dict[str, str] = {}
    request = WireRequest(operation.method, "")
    for parameter in operation.parameters:
        value = args.get(parameter.argument)
        if parameter.argument not in args or (value is None and not parameter.is_required):
            continue
        if parameter.place == "path":
            in_path[parameter.name] = _in_path(parameter, value)
        elif parameter.place == "query":
            request.query += _in_query(parameter, value)
        elif parameter.place == "header":
            request.headers[parameter.name] = _in_header(parameter, value)
        else:
            request.cookies.update(_in_cookie(parameter, value))
    path = _PLACEHOLDER.sub(lambda found: in_path.get(found[1], found[0]), operation.path)
    request.url = f"{operation.url}/{path.removeprefix('/')}"
    if body is not None and args.get(body.argument) is not None:
        _add_body(request, body, args[body.argument])
    return request


def _in_path(parameter: Parameter, value: JsonValue) -> str:
    text = _joined(parameter, value, _encoded)
    if not text or text in (".", ".."):
        # Such a segment would lead to another operation.
        raise ValueError(f"{parameter.argument} cannot be {value!r}: it is a part of the path")
    return text


def _joined(parameter: Parameter, value: JsonValue, encoded: Callable[[str], str]) -> str:
    """A value in the styles of paths and headers."""
    if parameter.style == "json":
        return encoded(json.dumps(value))
    name = encoded(parameter.name)
    explode = parameter.explode
    if isinstance(value, Mapping):
        pairs = [(encoded(str(key)), encoded(_text(each))) for key, each in value.items()]
        flat = [f"{key}={each}" for key, each in pairs] if explode else [text for pair in pairs for text in pair]
        starts_with_name = not explode
    else:
        flat = [encoded(_text(each)) for each in value] if isinstance(value, list) else [encoded(_text(value))]
        starts_with_name = True
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(flat)
    if parameter.style == "matrix":
        if not explode:
            return f";{name}={','.join(flat)}"
        return "".join(f";{name}={text}" if starts_with_name else f";{text}" for text in flat)
    return ",".join(flat)


def _in_query(parameter: Parameter, value: JsonValue) -> list[str]:
    def encoded(text: str) -> str:
        return _encoded(text, RESERVED.translate({ord(char): None for char in "#&=+"}) if parameter.allow_reserved else "")

    name = _encoded(parameter.name)
    if parameter.style == "json":
        return [f"{name}={_encoded(json.dumps(value))}"]
    if parameter.style == "deepObject" and isinstance(value, Mapping):
        return [f"{_encoded(path)}={encoded(text)}" for path, text in _deep(parameter.name, value)]
    if isinstance(value, Mapping):
        pairs = [(encoded(str(key)), encoded(_text(each))) for key, each in value.items()]
        if parameter.explode:
            return [f"{key}={text}" for key, text in pairs]
        return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(text for pair in pairs for text in pair)}"]
    if isinstance(value, list):
        texts = [encoded(_text(each)) for each in value]
        if parameter.explode:
            return [f"{name}={text}" for text in texts]
        return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(texts)}"] if texts else []
    return [f"{name}={encoded(_text(value))}"]


def _deep(path: str, value: JsonValue) -> Pairs:
    if isinstance(value, Mapping):
        return [pair for key, each in value.items() for pair in _deep(f"{path}[{key}]", each)]
    if isinstance(value, list):
        return [pair for each in value for pair in _deep(path, each)]
    return [(path, _text(value))]


def _in_header(parameter: Parameter, value: JsonValue) -> str:
    text = _joined(parameter, value, str)
    if not text.isprintable() or not text.isascii():
        raise ValueError(f"{parameter.argument} is a header, which has printable ASCII characters only: {text!r}")
    return text


def _in_cookie(parameter: Parameter, value: JsonValue) -> dict[str, str]:
    if isinstance(value, Mapping) and parameter.explode and parameter.style == "form":
        return {str(key): _encoded(_text(each)) for key, each in value.items()}
    return {
        parameter.name: _encoded(_text(value)) if not isinstance(value, list) else ",".join(_encoded(_text(v)) for v in value)
    }


def _add_body(request: WireRequest, body: Body, value: JsonValue) -> None:
    """Put the body into a request. Raises ValueError for one of a wrong kind."""
    if body.kind != "multipart":
        # The client writes that of a multipart form, which names its boundary.
        request.headers["Content-Type"] = "application/json" if "*" in body.media_type else body.media_type
    if body.kind == "json":
        request.content = json.dumps(value).encode()
    elif body.kind == "text":
        request.content = _text(value).encode()
    elif body.kind == "data":
        request.artifact = _artifact_name(body.argument, value)
    elif not isinstance(value, Mapping):
        raise ValueError(f"{body.argument} has to be an object of form fields, not {type(value).__name__}")
    elif body.kind == "form":
        pairs = _fields(value)
        request.content = "&".join(f"{_encoded(name)}={_encoded(text)}" for name, text in pairs).encode()
    else:
        request.fields = _fields({name: each for name, each in value.items() if name not in body.files})
        for name in [name for name in value if name in body.files]:
            named = cast(Sequence[JsonValue], value[name] if isinstance(value[name], list) else [value[name]])
            request.files += [(name, _artifact_name(name, each)) for each in named if each is not None]


def _fields(form: JsonMapping) -> Pairs:
    """The fields of a form: a list is repeated, an object is JSON."""
    return [
        (str(name), _text(each))
        for name, value in form.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]


def _artifact_name(argument: str, value: JsonValue) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument} has to be the name of an artifact, not {value!r}")
    return value


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="backslashreplace")


def known_arguments(operation: Operation) -> JsonObject:
    """The arguments that an operation takes, by the names that models see."""
    return {each.argument: each.schema for each in (*operation.parameters, *([operation.body] if operation.body else ()))}
