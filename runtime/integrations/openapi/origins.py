"""The servers that credentials of OpenApiTools go to: those that the definition names, and not those that a document does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from actors.errors import DefinitionError
from runtime.integrations.openapi.operations import Operation

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
