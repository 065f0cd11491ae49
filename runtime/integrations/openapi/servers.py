"""The URL that an operation's requests go to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urljoin

from actors.errors import DefinitionError
from actors.messages.json_types import JsonMapping

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
