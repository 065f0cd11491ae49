"""OpenAPI documents: read from a file, and their references followed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from actors.errors import DefinitionError
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue

MAX_HOPS = 50
"""References that may lead to each other."""


def is_url(source: object) -> bool:
    """True for the URL of a document, which is fetched when its tools are asked for."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def read(path: str | Path) -> JsonObject:
    """The document in a file. Raises DefinitionError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DefinitionError(f"OpenApiTools cannot read {str(path)!r}: {reason}") from error
    return parsed(text, str(path))


def parsed(text: str, where: str) -> JsonObject:
    """A document, which is JSON, or YAML where pyyaml is installed.

    Args:
        where: the file or the URL, for errors.

    Raises:
        DefinitionError: it is neither.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = plain(_of_yaml(text, where))
    if not isinstance(document, dict):
        raise DefinitionError(f"{where} is no OpenAPI document: it has to be an object with the field `openapi`")
    return document


def _of_yaml(text: str, where: str) -> object:
    try:
        import yaml
    except ImportError:
        raise DefinitionError(f"{where} is no JSON; for documents in YAML install pyyaml: pip install pyyaml") from None

    # The loader in C is ten times as fast, and a document may have a hundred thousand lines.
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads scalars as JSON has them: a date is a text, and only true and false are booleans."""

    replaced = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in replaced]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise DefinitionError(f"{where} is neither JSON nor YAML: {error}") from None


def plain(value: object) -> JsonValue:
    """The value as JSON has it: YAML reads the status 200 as a number, and a date as one."""
    if isinstance(value, Mapping):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


class Document:
    """A document of OpenAPI 3.0 or 3.1.

    Attributes:
        is_3_0: its schemas are those of OpenAPI 3.0, which differ from JSON Schema.

    Raises:
        DefinitionError: it is of another version, or no OpenAPI document.
    """

    def __init__(self, root: JsonMapping) -> None:
        version = root.get("openapi")
        if "swagger" in root:
            raise DefinitionError(
                f"the document is Swagger {root['swagger']}: OpenApiTools reads OpenAPI 3.0 and 3.1, into which "
                "https://converter.swagger.io converts it"
            )
        if not isinstance(version, str) or not version.startswith("3."):
            raise DefinitionError(f"OpenApiTools reads OpenAPI 3.0 and 3.1, and `openapi` of the document is {version!r}")
        if not isinstance(root.get("paths", {}), Mapping):
            raise DefinitionError("`paths` of the OpenAPI document has to be an object")
        self.root = root
        self.is_3_0 = version.startswith("3.0")

    @property
    def title(self) -> str:
        """The title of the API, "" without one."""
        info = self.root.get("info")
        title = info.get("title") if isinstance(info, Mapping) else ""
        return title if isinstance(title, str) else ""

    def followed(self, node: object) -> JsonObject:
        """An object, or the one that its `$ref` leads to; fields beside the `$ref` win.

        Raises:
            DefinitionError: a reference leads nowhere, in a circle, or out of the document.
        """
        seen: set[str] = set()
        beside: dict[str, Any] = {}
        while isinstance(node, Mapping) and isinstance(ref := node.get("$ref"), str):
            if ref in seen or len(seen) == MAX_HOPS:
                raise DefinitionError(f"the reference {ref!r} of the OpenAPI document leads in a circle")
            seen.add(ref)
            beside = {**{key: value for key, value in node.items() if key != "$ref"}, **beside}
            node = self.target(ref)
        return {**node, **beside} if isinstance(node, Mapping) else beside

    def target(self, ref: str) -> object:
        """The part of the document that a reference leads to. Raises DefinitionError."""
        if not ref.startswith("#"):
            raise DefinitionError(
                f"the reference {ref!r} leads out of the OpenAPI document: bundle its files into one, for example with "
                "`npx @redocly/cli bundle`"
            )
        node: object = self.root
        for token in ref.removeprefix("#").removeprefix("/").split("/") if len(ref) > 1 else ():
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise DefinitionError(f"the reference {ref!r} of the OpenAPI document leads nowhere: there is no {key!r}")
        return node
