"""Credentials for the requests of OpenApiTools, and the servers that they go to: those that the definition names."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from actors.definitions.tools.context import ToolContext
from actors.errors import DefinitionError
from actors.errors.hints import explains_all_wrong_calls
from actors.errors.user_code import in_thread
from runtime.integrations.openapi.document import Document
from runtime.integrations.openapi.operations import Operation
from runtime.integrations.openapi.wire import WireRequest


@explains_all_wrong_calls
@dataclass(frozen=True)
class BearerAuth:
    """A token in the header `Authorization: Bearer …`."""

    token: str = field(repr=False)


@explains_all_wrong_calls
@dataclass(frozen=True)
class BasicAuth:
    """A user's name and password in the header `Authorization: Basic …`."""

    username: str
    password: str = field(repr=False)


@explains_all_wrong_calls
@dataclass(frozen=True)
class ApiKeyAuth:
    """A key in a header, in the query or in a cookie.

    Args:
        name: of the header, the parameter or the cookie; by default as the document's only scheme of the type `apiKey` says.
        location: "header", "query" or "cookie"; by default as that scheme says.
    """

    key: str = field(repr=False)
    name: str = ""
    location: Literal["", "header", "query", "cookie"] = ""


Credentials = BearerAuth | BasicAuth | ApiKeyAuth
Auth = Credentials | Sequence[Credentials] | Callable[[ToolContext], Any] | None
"""Credentials; or a function of the call's context, sync or async, that returns some, or None."""


def key_place(document: Document) -> tuple[str, str] | None:
    """Place and name of the key that a document asks for; None unless it has exactly one such scheme."""
    components = document.followed(document.root.get("components"))
    schemes = components.get("securitySchemes")
    found = [document.followed(each) for each in schemes.values()] if isinstance(schemes, Mapping) else []
    places = {(str(each.get("in")), str(each.get("name"))) for each in found if each.get("type") == "apiKey"}
    return places.pop() if len(places) == 1 else None


def checked(auth: Auth, default: tuple[str, str] | None) -> Auth:
    """The credentials, with the place of keys filled in.

    Raises:
        DefinitionError: they are of a wrong kind, or a key has no place.
    """
    return auth if auth is None or _is_function(auth) else tuple(_each(auth, default))


def _is_function(auth: object) -> bool:
    return callable(auth) and not isinstance(auth, Credentials)


def _each(auth: object, default: tuple[str, str] | None) -> Iterable[Credentials]:
    for each in auth if isinstance(auth, list | tuple) else (auth,):
        if not isinstance(each, Credentials):
            raise DefinitionError(
                "auth of OpenApiTools takes BearerAuth, BasicAuth, ApiKeyAuth or a function that returns one, "
                f"not {type(each).__name__}"
            )
        if isinstance(each, ApiKeyAuth) and not (each.name and each.location):
            if default is None:
                raise DefinitionError(
                    "the document does not say where its key belongs: give ApiKeyAuth(key, name='X-Api-Key', location='header')"
                )
            each = ApiKeyAuth(each.key, each.name or default[1], each.location or default[0])  # type: ignore[arg-type]
        yield each


def filled_in(auth: Auth) -> frozenset[tuple[str, str]]:
    """Place and name of the parameters that the credentials fill in."""
    given = () if auth is None or _is_function(auth) else auth
    return frozenset((each.location, each.name) for each in given if isinstance(each, ApiKeyAuth))  # type: ignore[union-attr]


async def authorize(request: WireRequest, auth: Auth, context: ToolContext, default: tuple[str, str] | None) -> None:
    """Put the credentials of a call into its request.

    Raises:
        DefinitionError: a function returned something else.
        Exception: what the function raises.
    """
    if callable(auth) and _is_function(auth):
        result = await auth(context) if inspect.iscoroutinefunction(auth) else await in_thread(auth, context)
        given = await result if inspect.isawaitable(result) else result
        auth = checked(given, default) if given is not None else None
    for each in _each(auth, default) if auth is not None else ():
        if isinstance(each, BearerAuth):
            request.headers["Authorization"] = f"Bearer {each.token}"
        elif isinstance(each, BasicAuth):
            pair = f"{each.username}:{each.password}".encode()
            request.headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif each.location == "header":
            request.headers[each.name] = each.key
        elif each.location == "cookie":
            request.cookies[each.name] = each.key
        else:
            request.query += _query(each)


def _query(key: ApiKeyAuth) -> list[str]:
    return [f"{quote(key.name, safe='')}={quote(key.key, safe='')}"]


_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, such as `https://api.example.com:443`; "" for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname and port is not None else ""


def check_servers(found: Sequence[Operation], known: Collection[str], *, with_headers: bool) -> None:
    """Check that the requests that carry credentials go to known servers.

    Args:
        found: the operations that become tools.
        known: URLs of the servers that credentials are for.
        with_headers: each request has headers of the definition, which may be credentials; without them, requests of operations
            that take no credentials do not count.

    Raises:
        DefinitionError: one goes elsewhere.
    """
    origins = {origin_of(url) for url in known} - {""}
    for each in found:
        if (with_headers or each.takes_credentials) and origin_of(each.url) not in origins:
            where = origin_of(each.url) or each.url
            raise DefinitionError(
                f"{each.method} {each.path}: the document sends it to {where}, and credentials and headers of OpenApiTools are "
                f"for {', '.join(sorted(origins)) or 'no server'}. Send all to one with server='https://…', or name each server "
                f"that may have them: credential_servers=[{where!r}]"
            )


def checked_servers(given: object) -> tuple[str, ...]:
    """The URLs of servers that may have credentials. Raises DefinitionError when one is no URL."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise DefinitionError(f"credential_servers of OpenApiTools takes a list of URLs, not {given!r}")
    for each in given:
        if not origin_of(each):
            raise DefinitionError(
                f"credential_servers of OpenApiTools: {each!r} is no whole URL such as 'https://api.example.com'"
            )
    return tuple(given)
