"""Recorded model calls: what is masked of them, and the parts in which they are stored.

Rules of masking: every text in a request goes through a function, and what is no text is left out. What is kept without being
masked has no words of people: roles, ids, names of functions and of fields, types of data, numbers.

Rules of parts:

- A part is stored under a digest of its bytes, so equal parts are one, in whichever request they are.
- The contents of a conversation only grow, as a rule. Each GROUP of them is a part of its own that has their digests, and each
  GROUP of such groups is one, too. So a request names a few digests, however long the conversation is, and a session of n
  requests takes room in proportion to n.
- What comes out is equal to what went in, to the order of keys. Only headers of HTTP, which may be keys, lose their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from actors.errors import NotEncodableError
from actors.messages.codec import decode, encode
from actors.messages.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
)
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration, GenerateContentConfig, LlmRequest
from actors.messages.protocol.log import PackedPart, PackedRequest

Mask = Callable[[str], str]
"""Gives what is recorded in place of a text."""


def masked_tools(tools: Iterable[FunctionDeclaration], mask: Mask) -> list[FunctionDeclaration]:
    """Copies of declarations, masked. Raises what the mask raises."""
    return [
        FunctionDeclaration(name=tool.name, description=mask(tool.description), parameters=masked_value(tool.parameters, mask))
        for tool in tools
    ]


def masked_content(content: Content, mask: Mask) -> Content:
    """A copy of a content, masked. Raises what the mask raises."""
    return Content(role=content.role, parts=[_part(part, mask) for part in content.parts])


def masked_value(value: JsonValue, mask: Mask) -> JsonValue:
    """A copy of a JSON value with the texts in it masked, but not the names of fields; bytes become a text with their number."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: masked_value(each, mask) for key, each in value.items()}
        case list() | tuple():
            return [masked_value(each, mask) for each in value]
        case bytes():
            return _size(value)
        case _:
            return value


def _part(part: Part, mask: Mask) -> Part:
    """A copy with the fields that can be masked. Signatures, and what only passes through us, are left out."""
    call, response, data, file = part.function_call, part.function_response, part.inline_data, part.file_data
    code, result = part.executable_code, part.code_execution_result
    return Part(
        text=_text(part.text, mask),
        thought=part.thought,
        function_call=FunctionCall(id=call.id, name=call.name, args=masked_value(call.args, mask)) if call is not None else None,
        function_response=(
            FunctionResponse(id=response.id, name=response.name, response=masked_value(response.response, mask))
            if response is not None
            else None
        ),
        inline_data=Blob(data=_size(data.data).encode(), mime_type=data.mime_type) if data is not None else None,
        file_data=FileData(file_uri=_text(file.file_uri, mask), mime_type=file.mime_type) if file is not None else None,
        executable_code=ExecutableCode(code=_text(code.code, mask), language=code.language) if code is not None else None,
        code_execution_result=(
            CodeExecutionResult(outcome=result.outcome, output=_text(result.output, mask)) if result is not None else None
        ),
    )


def _text(text: str | None, mask: Mask) -> str | None:
    return mask(text) if text is not None else None


def _size(data: bytes) -> str:
    return f"{len(data)} bytes"


SIZE = 16
"""Bytes of a digest: two different parts never have the same."""

GROUP = 32
"""Digests in a part that stands for a group."""

HIDDEN = "(not recorded)"
"""Stands for the value of a header."""

_INSTRUCTION = "system_instruction"
_HTTP_OPTIONS = ("http_options", "httpOptions")


class MissingPartError(Exception):
    """A part is not there: it was deleted, or is larger than what is stored."""


class RequestPacker:
    """Takes the requests of one run apart, and remembers which parts it has given.

    Args:
        max_part_bytes: a larger part is not taken.
        mask: what all texts go through; None leaves them as they are.
    """

    def __init__(self, max_part_bytes: int, mask: Mask | None = None) -> None:
        self._max_part_bytes = max_part_bytes
        self._mask = mask
        self._given: set[bytes] = set()
        # By identity: a long conversation stands in one list for all requests. The content is kept, so that no other gets its id.
        self._digests: dict[int, tuple[Content, bytes]] = {}

    def packed(self, request: LlmRequest) -> tuple[PackedRequest, list[PackedPart]]:
        """The request, and those of its parts that were not given before.

        Raises:
            NotEncodableError: something in it has no wire form, or is too large. No part counts as given then.
            Exception: what the mask raises; the same holds then.
        """
        parts: dict[bytes, bytes] = {}
        config, tools, output_schema = without_headers(request.config), list(request.tools), request.output_schema
        if self._mask is not None:
            config, output_schema = masked_value(config, self._mask), masked_value(output_schema, self._mask)
            tools = masked_tools(tools, self._mask)
        instruction = config.get(_INSTRUCTION)
        if instruction is not None:
            # In its place: the order of keys is part of what was sent.
            config[_INSTRUCTION] = None
        contents = [self._content(content, parts) for content in request.contents]
        packed = PackedRequest(
            model=request.model,
            agent=request.agent,
            instruction=self._part(encode(instruction), parts) if instruction is not None else b"",
            config=self._part(encode(config), parts) if config else b"",
            tools=self._part(encode(tools), parts) if tools else b"",
            output_schema=self._part(encode(output_schema), parts) if output_schema is not None else b"",
            contents=self._grouped(contents, parts),
        )
        self._given.update(parts)
        return packed, [PackedPart(digest, raw) for digest, raw in parts.items()]

    def _content(self, content: Content, parts: dict[bytes, bytes]) -> bytes:
        known = self._digests.get(id(content))
        if known is not None and known[1] in self._given:
            return known[1]
        kept = content if self._mask is None else masked_content(content, self._mask)
        digest = self._part(encode(kept), parts)
        self._digests[id(content)] = (content, digest)
        return digest

    def _grouped(self, digests: Sequence[bytes], parts: dict[bytes, bytes]) -> tuple[bytes, ...]:
        """The digests level by level: what fills no group of its level, joined; groups go to the next level."""
        levels = []
        while digests:
            full = len(digests) - len(digests) % GROUP
            levels.append(b"".join(digests[full:]))
            groups = [b"".join(digests[first : first + GROUP]) for first in range(0, full, GROUP)]
            digests = [self._part(group, parts) for group in groups]
        return tuple(levels)

    def _part(self, raw: bytes, parts: dict[bytes, bytes]) -> bytes:
        if len(raw) > self._max_part_bytes:
            raise NotEncodableError("request", f"a part of it has {len(raw):,} bytes, more than {self._max_part_bytes:,}")
        digest = blake2b(raw, digest_size=SIZE).digest()
        if digest not in self._given:
            parts[digest] = raw
        return digest


def named_parts(request: PackedRequest) -> Iterator[tuple[bytes, int]]:
    """The digests that a request names itself, each with how many levels of groups are below it."""
    for digest in (request.instruction, request.config, request.tools, request.output_schema):
        if digest:
            yield digest, 0
    for level, joined in enumerate(request.contents):
        for digest in split(joined):
            yield digest, level


def split(joined: bytes) -> list[bytes]:
    """Digests that were joined."""
    return [joined[first : first + SIZE] for first in range(0, len(joined), SIZE)]


def without_headers(config: JsonObject) -> JsonObject:
    """A copy of a configuration in which the headers of HTTP have their names only."""
    kept = dict(config)
    for name in _HTTP_OPTIONS:
        options = kept.get(name)
        if isinstance(options, dict) and isinstance(headers := options.get("headers"), dict):
            kept[name] = {**options, "headers": dict.fromkeys(headers, HIDDEN)}
    return kept


def reachable(requests: Iterable[PackedRequest], groups: Callable[[Sequence[bytes]], Mapping[bytes, bytes]]) -> set[bytes]:
    """The digests of all parts that some requests need, also those of which only groups have the digests.

    Args:
        groups: gives the parts of groups that are there, by digest.
    """
    found: set[bytes] = set()
    level = {named for request in requests for named in named_parts(request)}
    while level:
        found.update(digest for digest, _ in level)
        below = {digest: depth - 1 for digest, depth in level if depth}
        raws = groups(list(below)) if below else {}
        level = {(inner, below[digest]) for digest, raw in raws.items() for inner in split(raw)}
    return found


def unpacked(request: PackedRequest, parts: Mapping[bytes, bytes]) -> LlmRequest:
    """A request put together again.

    Args:
        parts: by digest; at least all that it needs.

    Raises:
        MissingPartError: one of them is not there.
    """
    config: JsonObject = decode(_raw(parts, request.config), dict) if request.config else {}
    if request.instruction:
        config[_INSTRUCTION] = decode(_raw(parts, request.instruction), str)
    made = LlmRequest(
        model=request.model,
        agent=request.agent,
        contents=[decode(_raw(parts, digest), Content) for digest in _contents(request.contents, parts)],
        tools=decode(_raw(parts, request.tools), list[FunctionDeclaration]) if request.tools else [],
        output_schema=decode(_raw(parts, request.output_schema), dict) if request.output_schema else None,
    )
    # As it is: converted, its keys would be in another order.
    made.config = GenerateContentConfig(config)
    return made


def _contents(levels: Sequence[bytes], parts: Mapping[bytes, bytes]) -> list[bytes]:
    """The digests of contents, in order: those in groups of the highest level come first."""
    digests: list[bytes] = []
    for joined in reversed(levels):
        digests = [each for group in digests for each in split(_raw(parts, group))] + split(joined)
    return digests


def _raw(parts: Mapping[bytes, bytes], digest: bytes) -> bytes:
    try:
        return parts[digest]
    except KeyError:
        raise MissingPartError from None
