"""What is read out of an OpenAPI document, and what is refused in one."""

from __future__ import annotations

import builtins
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import DefinitionError
from runtime import ApiKeyAuth, OpenApiTools
from runtime.integrations.openapi.document import Document, parsed
from runtime.integrations.openapi.operations import Operation, operations
from runtime.integrations.openapi.schemas import MAX_BYTES, MAX_NODES, Schemas
from tests.support.modules import forget_modules
from tests.support.servers.api_server import body, operation, parameter, spec


def document(version: str = "3.1.0", **fields: Any) -> dict[str, Any]:
    return {"openapi": version, "servers": [{"url": "https://api.test/v1/"}], **fields}


def read(given: dict[str, Any], **options: Any) -> list[Operation]:
    known = {"server": None, "base": None, "variables": {}, **options}
    return operations(Document(given), **known)


def one(
    path: str = "/x", method: str = "get", version: str = "3.1.0", root: dict[str, Any] | None = None, **fields: Any
) -> Operation:
    (found,) = read(document(version, paths={path: {method: fields}}, **(root or {})))
    return found


def schema(given: Any, version: str = "3.1.0", /, **schemas: Any) -> Any:
    return Schemas(Document(document(version, components={"schemas": schemas}))).of(given)


def test_an_operation_has_the_parameters_of_its_path_and_its_own() -> None:
    get, *_ = read(spec("https://api.test"))
    declaration = get.declaration("get_pet")
    assert declaration.description == "The operation get_pet."
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "fields": {"type": "array", "items": {}},
            "X_Trace": {"type": "string"},
            "theme": {"type": "string"},
        },
        "required": ["id"],
    }


def test_what_credentials_fill_in_is_not_shown_to_the_model() -> None:
    found = one(parameters=[parameter("key", "query"), parameter("Authorization", "header"), parameter("q", "query")])
    assert list((found.declaration("x", {("query", "key")}).parameters or {})["properties"]) == ["q"]


def test_the_body_and_a_parameter_of_that_name_have_different_arguments() -> None:
    found = one(method="post", parameters=[parameter("body", "query")], requestBody=body("application/json", {"type": "object"}))
    assert (found.parameters[0].argument, found.body and found.body.argument) == ("body", "body_2")


@pytest.mark.parametrize(
    ("media_types", "kind"),
    [
        (["text/plain", "application/json"], "json"),
        (["application/vnd.api+json; charset=utf-8"], "json"),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "form"),
        (["application/xml"], "text"),
        (["application/pdf"], "data"),
    ],
)
def test_the_body_is_of_the_kind_that_models_write_best(media_types: list[str], kind: str) -> None:
    found = one(method="post", requestBody={"content": {each: {} for each in media_types}})
    assert found.body is not None
    assert found.body.kind == kind


@pytest.mark.parametrize(
    ("given", "version", "expected"),
    [
        ({"type": "string", "nullable": True, "enum": ["a"]}, "3.0.3", {"type": ["string", "null"], "enum": ["a", None]}),
        ({"$ref": "#/components/schemas/Named", "nullable": True}, "3.0.3", {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, "3.0.3", {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, "3.0.3", {"type": "integer", "minimum": 1}),
        ({"type": ["string", "null"], "example": "x", "xml": {}}, "3.1.0", {"type": ["string", "null"]}),
        ({"$ref": "#/components/schemas/Named", "description": "mine"}, "3.1.0", {"enum": ["a"], "description": "mine"}),
        (True, "3.1.0", {}),
        (False, "3.1.0", {"not": {}}),
        (
            {
                "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}],
                "required": ["b"],
            },
            "3.1.0",
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        ),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "3.1.0", {"allOf": [{"type": "string"}, {"minLength": 2}]}),
        (
            {"properties": {"id": {"readOnly": True}, "n": {}}, "required": ["id", "n"]},
            "3.1.0",
            {"properties": {"n": {}}, "required": ["n"]},
        ),
    ],
)
def test_a_schema_becomes_one_of_json_schema(given: Any, version: str, expected: Any) -> None:
    assert schema(given, version, Named={"enum": ["a"]}) == expected


def test_a_schema_that_has_itself_inside_is_shown_once() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "integer"}}}
    shown = schema({"$ref": "#/components/schemas/Node"}, Node=node)
    assert shown == {"type": "object", "properties": {"next": {"type": "object"}, "v": {"type": "integer"}}}


def nodes(shown: Any) -> int:
    if isinstance(shown, dict):
        return 1 + sum(nodes(each) for each in shown.values())
    return sum(nodes(each) for each in shown) if isinstance(shown, list) else 0


def test_a_schema_that_doubles_at_every_level_stays_small() -> None:
    levels: dict[str, Any] = {
        f"L{level}": {"type": "object", "properties": {side: {"$ref": f"#/components/schemas/L{level + 1}"} for side in "ab"}}
        for level in range(40)
    }
    shown = schema({"$ref": "#/components/schemas/L0"}, **levels, L40={"type": "string"})
    assert 100 < nodes(shown) < 4 * MAX_NODES


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=90)


@given(st.lists(names, min_size=1, max_size=20), st.integers(0, 32))
def test_every_name_is_one_that_services_take(ids: list[str], prefix: int) -> None:
    paths = {f"/{index}": {"get": {"operationId": each}} for index, each in enumerate(ids)}
    found = [operation.name for operation in read(document(paths=paths), prefix="p" * prefix)]
    assert len(set(found)) == len(ids)
    assert all(each.isascii() and each.isidentifier() and len(each) <= 64 - prefix for each in found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
refs = st.sampled_from([{"$ref": f"#/components/schemas/S{index}"} for index in range(4)])
schemas = st.recursive(
    refs | st.sampled_from([{"type": "string", "nullable": True}, {"type": "integer", "exclusiveMinimum": True}, True, {}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["object", "null"]]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "required": st.lists(st.sampled_from("abc"), max_size=2),
            "items": inner,
            "allOf": st.lists(inner, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
            "additionalProperties": inner | st.booleans(),
            "default": json_values,
        },
    ),
    max_leaves=10,
)


@given(st.lists(schemas, min_size=4, max_size=4), st.sampled_from(["3.0.0", "3.1.0"]))
def test_every_schema_becomes_one_without_references(given: list[Any], version: str) -> None:
    known = {f"S{index}": each for index, each in enumerate(given)}
    shown = []
    for name in known:
        # References that lead to nothing but each other are refused.
        with suppress(DefinitionError):
            shown.append(schema({"$ref": f"#/components/schemas/{name}"}, version, **known))
    assert all(nodes(each) < 10 * MAX_NODES and len(json.dumps(each)) <= MAX_BYTES for each in shown)
    assert "$ref" not in json.dumps([each for each in shown if "default" not in json.dumps(each)])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"swagger": "2.0"}, "Swagger 2.0: OpenApiTools reads OpenAPI 3.0 and 3.1"),
        ({"openapi": "4.0"}, "OpenApiTools reads OpenAPI 3.0 and 3.1, and `openapi` of the document is '4.0'"),
        ({}, "`openapi` of the document is None"),
        (document(paths=[]), "`paths` of the OpenAPI document has to be an object"),
        (document(paths={"/x": {"get": {"parameters": [{"name": "q"}]}}}), "GET /x: a parameter needs a `name` and an `in`"),
        (
            document(paths={"/x": {"$ref": "#/nothing"}}),
            "'#/nothing' of the OpenAPI document leads nowhere: there is no 'nothing'",
        ),
        (document(paths={"/x": {"$ref": "b.yaml#/x"}}), "'b.yaml#/x' leads out of the OpenAPI document: bundle its files"),
        (document(paths={"/x": {"get": {}}}, servers=[]), "names no whole URL of its server .'/'.: give OpenApiTools"),
        (document(servers=[{"url": "https://{region}.test"}], paths={"/x": {"get": {}}}), "has no value for 'region'"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(DefinitionError, match=error):
        OpenApiTools(given)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tools": ["get_dog*"]}, r"tools: no operation is called 'get_dog\*'. Did you mean .* There are: get_pet, "),
        ({"tools": "get_*"}, r"tools of OpenApiTools takes a list of patterns such as \['get_\*'\], not 'get_\*'"),
        ({"require_confirmation": ["post_*"]}, r"require_confirmation: no operation is called 'post_\*'"),
        ({"require_confirmation": "all"}, "takes True, 'unsafe', a list of patterns or a function, not 'all'"),
        ({"prefix": "a-b"}, "prefix 'a-b' of OpenApiTools: use up to 32 letters, digits and underscores"),
        ({"auth": "token"}, "takes BearerAuth, BasicAuth, ApiKeyAuth or a function that returns one, not str"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], error: str) -> None:
    with pytest.raises(DefinitionError, match=error):
        OpenApiTools(spec("https://api.test"), **options)


def test_a_key_needs_a_place() -> None:
    with pytest.raises(DefinitionError, match="does not say where its key belongs: give ApiKeyAuth"):
        OpenApiTools(document(), auth=ApiKeyAuth("k"))
    with pytest.raises(DefinitionError, match="OpenApiTools takes a dictionary, a path or a URL, not int"):
        OpenApiTools(7)  # type: ignore[arg-type]


def test_the_server_has_the_values_of_its_variables() -> None:
    region = {"default": "eu", "enum": ["eu", "us"]}
    given = document(servers=[{"url": "https://{region}.test/", "variables": {"region": region}}], paths={"/x": {"get": {}}})
    assert [read(given)[0].url, read(given, variables={"region": "us"})[0].url] == ["https://eu.test", "https://us.test"]
    assert read(given, server="http://localhost:1/v2/")[0].url == "http://localhost:1/v2"
    assert (
        read({**given, "servers": [{"url": "/v3"}]}, base="https://docs.test/api/openapi.json")[0].url == "https://docs.test/v3"
    )
    with pytest.raises(DefinitionError, match="takes eu, us for 'region', not 'asia'"):
        read(given, variables={"region": "asia"})


YAML = """
openapi: 3.0.0
servers: [{url: https://api.test}]
paths:
  /x:
    get:
      operationId: get_x
      parameters:
      - {name: since, in: query, schema: {type: string, default: 2024-01-01, enum: [no, on]}}
      responses: {200: {description: fine}}
"""


def test_a_file_may_be_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api.yaml").write_text(YAML)
    (found,) = read(parsed(YAML, "api.yaml"))
    assert found.parameters[0].schema == {"type": "string", "default": "2024-01-01", "enum": ["no", "on"]}
    assert OpenApiTools(tmp_path / "api.yaml").name == "OpenApiTools"
    with pytest.raises(DefinitionError, match=r"cannot read .*nothing.yaml"):
        OpenApiTools(str(tmp_path / "nothing.yaml"))
    with pytest.raises(DefinitionError, match="is neither JSON nor YAML"):
        parsed("a: [", "x")
    imported = builtins.__import__

    def without_yaml(name: str, *rest: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return imported(name, *rest)

    forget_modules(monkeypatch, "yaml")
    monkeypatch.setattr(builtins, "__import__", without_yaml)
    with pytest.raises(DefinitionError, match=r"api.yaml is no JSON; for documents in YAML install pyyaml"):
        OpenApiTools(tmp_path / "api.yaml")


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[openapi\]'"):
        OpenApiTools(spec("https://api.test"))


def test_operations_without_an_id_are_called_by_their_path() -> None:
    assert one("/pets/{id}/toys", "delete").name == "delete_pets_id_toys"
    assert operation("x")["operationId"] == "x"
