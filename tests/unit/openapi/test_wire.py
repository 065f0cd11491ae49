"""Where the arguments of a call stand in its request, and how much of the answer is read."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.integrations.openapi.client import beginning
from runtime.integrations.openapi.document import Document
from runtime.integrations.openapi.operations import Operation, operations
from runtime.integrations.openapi.wire import WireRequest, request_of
from tests.support.servers.api_server import body, parameter


def made(path: str = "/x", method: str = "post", **fields: Any) -> Operation:
    document = Document({"openapi": "3.1.0", "paths": {path: {method: fields}}})
    return operations(document, server="https://api.test", base=None, variables={})[0]


def sent(place: str, value: Any, path: str = "/x", **how: Any) -> WireRequest:
    return request_of(made(path, parameters=[parameter("p", place, **how)]), {"p": value})


COLOURS = ["blue", "black", "a/b"]
RGB = {"R": 100, "G": 200}


@pytest.mark.parametrize(
    ("how", "value", "query"),
    [
        ({}, COLOURS, "p=blue&p=black&p=a%2Fb"),
        ({"explode": False}, COLOURS, "p=blue,black,a%2Fb"),
        ({"style": "spaceDelimited"}, COLOURS, "p=blue%20black%20a%2Fb"),
        ({"style": "pipeDelimited"}, COLOURS, "p=blue%7Cblack%7Ca%2Fb"),
        ({}, RGB, "R=100&G=200"),
        ({"explode": False}, RGB, "p=R,100,G,200"),
        ({"style": "deepObject"}, {"a": {"b": [1, 2]}, "c": True}, "p%5Ba%5D%5Bb%5D=1&p%5Ba%5D%5Bb%5D=2&p%5Bc%5D=true"),
        ({"allowReserved": True}, "a/b&c d", "p=a/b%26c%20d"),
        ({"content": {"application/json": {}}}, RGB, "p=%7B%22R%22%3A%20100%2C%20%22G%22%3A%20200%7D"),
        ({}, False, "p=false"),
        ({}, [], ""),
        ({}, None, ""),
    ],
)
def test_a_query_has_the_styles_of_openapi(how: dict[str, Any], value: Any, query: str) -> None:
    assert sent("query", value, **how).whole_url == (f"https://api.test/x?{query}" if query else "https://api.test/x")


@pytest.mark.parametrize(
    ("how", "value", "path"),
    [
        ({}, COLOURS, "/blue,black,a%2Fb"),
        ({}, RGB, "/R,100,G,200"),
        ({"explode": True}, RGB, "/R=100,G=200"),
        ({"style": "label"}, COLOURS, "/.blue,black,a%2Fb"),
        ({"style": "label", "explode": True}, RGB, "/.R=100.G=200"),
        ({"style": "matrix"}, RGB, "/;p=R,100,G,200"),
        ({"style": "matrix", "explode": True}, RGB, "/;R=100;G=200"),
        ({"style": "matrix", "explode": True}, COLOURS, "/;p=blue;p=black;p=a%2Fb"),
    ],
)
def test_a_path_has_the_styles_of_openapi(how: dict[str, Any], value: Any, path: str) -> None:
    assert sent("path", value, "/{p}", **how).whole_url == f"https://api.test{path}"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])), st.text(st.characters(codec="utf-8")))
def test_the_server_gets_the_texts_that_the_model_wrote(segment: str, asked: str) -> None:
    operation = made("/a/{p}/b", parameters=[parameter("p", "path"), parameter("q&", "query")])
    args = {"p": segment, operation.parameters[1].argument: asked}
    if segment in ("", ".", ".."):
        with pytest.raises(ValueError, match="it is a part of the path"):
            request_of(operation, args)
        return
    url = urlsplit(request_of(operation, args).whole_url)
    assert [unquote(each) for each in url.path.split("/")] == ["", "a", segment, "b"]
    assert parse_qsl(url.query, keep_blank_values=True) == [("q&", asked)]


form = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8) | st.integers() | st.lists(st.booleans(), min_size=1))


@given(form)
def test_a_form_has_each_field_and_a_list_in_several(fields: dict[str, Any]) -> None:
    operation = made(requestBody=body("application/x-www-form-urlencoded", {"type": "object"}))
    content = request_of(operation, {"body": fields}).content or b""
    expected = [
        (name, each if isinstance(each, str) else json.dumps(each))
        for name, value in fields.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    assert parse_qsl(content.decode(), keep_blank_values=True) == expected


@pytest.mark.parametrize(
    ("operation", "args", "error"),
    [
        (made("/{p}", parameters=[parameter("p", "path")], requestBody=body("text/plain", {})), {}, "missing arguments: p, body"),
        (made(parameters=[parameter("h", "header")]), {"h": "a\r\nX: y"}, "h is a header, which has printable ASCII"),
        (
            made(requestBody=body("application/x-www-form-urlencoded", {})),
            {"body": "x"},
            "body has to be an object of form fields",
        ),
        (made(requestBody=body("image/png", {})), {"body": 7}, "body has to be the name of an artifact, not 7"),
    ],
)
def test_what_cannot_be_sent_is_named(operation: Operation, args: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        request_of(operation, args)


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ENCODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "plain": ("", bytes),
    "gzip": ("GZIP", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without its header": ("deflate", raw_deflate),
}


async def pieces(sent: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(sent), size):
        yield sent[at : at + size]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.binary(max_size=300), st.integers(1, 50), st.integers(1, 310))
async def test_the_beginning_of_a_body_is_that_of_the_whole(encoding: str, data: bytes, size: int, most: int) -> None:
    name, encode = ENCODINGS[encoding]
    assert await beginning(pieces(encode(data), size), name, most) == data[:most]


@pytest.mark.parametrize("name", ["gzip", "br"])
async def test_what_cannot_be_decompressed_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="the answer"):
        await beginning(pieces(b"no gzip at all", 5), name, 10)
