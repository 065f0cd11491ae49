"""What requests of several services have in common, as JSON. Pure: no SDK, no clock, no socket.

A conversation is turns of user and assistant, the form that Chat Completions and Messages have in common:

- Turns alternate; the first and the last are the user's.
- Every call is answered at the beginning of the turn that follows it. A call that has no answer gets one that says so; an answer
  whose call is not in the turn before becomes a text.
- Data that the model made stands in the next turn of the user, for services take none from the assistant.
- Thoughts stand where they were, with the signature that came with them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.rules.prompt.compiler import NO_ANSWER

NUDGE = "Go on as your instructions say."
"""Stands for a turn of the user where a service wants one and there is none."""


class SaidText(msgspec.Struct, frozen=True):
    """Something said."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """Something thought; `signature` is the service's own, without which some do not take it back."""

    text: str
    signature: bytes | None = None


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """An image, a sound or a file: its bytes, or where it is."""

    mime_type: str
    data: bytes | None = None
    uri: str | None = None
    name: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool."""

    id: str
    name: str
    args: JsonObject


class ToolAnswer(msgspec.Struct, frozen=True):
    """What a tool answered, and the data in its answer."""

    id: str
    name: str
    response: JsonObject
    media: tuple[Media, ...] = ()


Piece: TypeAlias = SaidText | Thought | Media | ToolCall | ToolAnswer


class ChatTurn(msgspec.Struct, frozen=True):
    """What one side says before the other does."""

    is_model: bool
    pieces: list[Piece]

    def calls(self) -> Iterator[ToolCall]:
        """The calls in the turn, in order."""
        return (piece for piece in self.pieces if isinstance(piece, ToolCall))


def turns(contents: Sequence[Content]) -> list[ChatTurn]:
    """The conversation as turns: see the rules of this file."""
    found: list[ChatTurn] = []
    held: list[Media] = []
    for turn in _sides(contents):
        if turn.is_model:
            if not found:
                found.append(ChatTurn(False, [SaidText(NUDGE)]))
            found.append(ChatTurn(True, [_noted(piece) for piece in turn.pieces]))
            held = [piece for piece in turn.pieces if isinstance(piece, Media)]
        else:
            found.append(_answering(found[-1] if found else None, held, turn.pieces))
    if not found or found[-1].is_model:
        last = _answering(found[-1] if found else None, held, [])
        found.append(last if last.pieces else ChatTurn(False, [SaidText(NUDGE)]))
    return found


def _sides(contents: Sequence[Content]) -> Iterator[ChatTurn]:
    """The words of each side in a row, of several contents if there are. Calls and answers have ids."""
    turn: ChatTurn | None = None
    # Calls without an id, in order: an answer without one belongs to the first of its name.
    unnamed: list[ToolCall] = []
    number = 0
    for content in contents:
        last: Part | None = None
        for part in content.parts:
            is_model = _is_models(part, content.role)
            piece = _piece(part)
            if piece is None:
                continue
            if isinstance(piece, ToolCall) and not piece.id:
                number += 1
                piece = msgspec.structs.replace(piece, id=f"call-{number}")
                unnamed.append(piece)
            elif isinstance(piece, ToolAnswer) and not piece.id:
                call = next((call for call in unnamed if call.name == piece.name), None)
                if call is not None:
                    unnamed.remove(call)
                    piece = msgspec.structs.replace(piece, id=call.id)
            if turn is None or turn.is_model != is_model:
                if turn is not None:
                    yield turn
                turn = ChatTurn(is_model, [])
                last = None
            if is_model and last is not None and isinstance(piece, SaidText) and isinstance(turn.pieces[-1], SaidText):
                turn.pieces[-1] = SaidText(turn.pieces[-1].text + piece.text)  # one text that came in parts
            else:
                turn.pieces.append(piece)
            last = part
    if turn is not None:
        yield turn


def _is_models(part: Part, role: str | None) -> bool:
    if part.function_call is not None or part.thought:
        return True
    return part.function_response is None and role == "model"


def _answering(before: ChatTurn | None, held: list[Media], pieces: list[Piece]) -> ChatTurn:
    """The user's turn: answers to the calls in the turn before, then the data that is held back from it, then the rest."""
    calls = list(before.calls()) if before is not None else []
    answers: dict[str, ToolAnswer] = {}
    rest: list[Piece] = []
    wanted = {call.id for call in calls}
    for piece in pieces:
        if not isinstance(piece, ToolAnswer):
            rest.append(piece)
        elif piece.id in wanted and piece.id not in answers:
            answers[piece.id] = piece
        else:
            rest += [SaidText(f"The tool {piece.name} answered: {json_text(piece.response)}"), *piece.media]
    answered = [answers.get(call.id) or ToolAnswer(call.id, call.name, NO_ANSWER) for call in calls]
    return ChatTurn(False, [*answered, *held, *rest])


def _noted(piece: Piece) -> Piece:
    return SaidText(f"[{piece.mime_type}: see below]") if isinstance(piece, Media) else piece


def _piece(part: Part) -> Piece | None:
    """A part as a piece; None for one that says nothing to another service."""
    if part.function_call is not None:
        return _call(part.function_call)
    if part.function_response is not None:
        return _answer(part.function_response)
    if part.thought:
        return Thought(part.text or "", part.thought_signature) if part.text or part.thought_signature else None
    if part.inline_data is not None:
        blob = part.inline_data
        return Media(mime_type=blob.mime_type or "application/octet-stream", data=blob.data, name=blob.display_name)
    if part.file_data is not None:
        file = part.file_data
        return Media(mime_type=file.mime_type or "application/octet-stream", uri=file.file_uri or "", name=file.display_name)
    if part.executable_code is not None:
        return SaidText(f"```{(part.executable_code.language or '').lower()}\n{part.executable_code.code or ''}\n```")
    if part.code_execution_result is not None:
        return SaidText(f"The code printed:\n```\n{part.code_execution_result.output or ''}\n```")
    return SaidText(part.text) if part.text and not part.text.isspace() else None


def _call(call: FunctionCall) -> ToolCall:
    return ToolCall(call.id or "", call.name, dict(call.args or {}))


def _answer(response: FunctionResponse) -> ToolAnswer:
    media = tuple(filter(None, map(_response_media, response.parts or ())))
    return ToolAnswer(response.id or "", response.name, dict(response.response or {}), media)


def _response_media(part: JsonObject) -> Media | None:
    """The data of one part of a function response, which is a dictionary with camelCase keys."""
    blob, file = part.get("inlineData"), part.get("fileData")
    if isinstance(blob, dict):
        data = base64.b64decode(blob.get("data") or "")
        return Media(mime_type=blob.get("mimeType") or "application/octet-stream", data=data, name=blob.get("displayName"))
    if isinstance(file, dict):
        return Media(
            mime_type=file.get("mimeType") or "application/octet-stream", uri=file.get("fileUri"), name=file.get("displayName")
        )
    return None


def json_text(value: object) -> str:
    """A value as the JSON that models are shown."""
    return msgspec.json.encode(value).decode()


def base64_text(data: bytes | None) -> str:
    """Bytes as base64."""
    return base64.b64encode(data or b"").decode()


def text_of(media: Media) -> str:
    """The text in data that is text; services take none that is empty."""
    text = (media.data or b"").decode(errors="replace")
    return text if text.strip() else without_form(media)


def without_form(media: Media) -> str:
    """The text in place of data that a service has no form for."""
    where = f" at {media.uri}" if media.uri else ""
    return f"[{media.name or 'data'} of type {media.mime_type}{where}, which this model cannot be shown]"


# A signature means something only to the service that made it, and others refuse a conversation that holds one. Gemini's are kept
# as they come, so they have no mark.
_ANTHROPIC = b"anthropic:"
_ANTHROPIC_REDACTED = b"anthropic-redacted:"


def signed_by_anthropic(signature: str, *, redacted: bool = False) -> bytes:
    """A signature of Anthropic's as a content keeps it; or, with `redacted`, the whole of a thought that is not shown."""
    return (_ANTHROPIC_REDACTED if redacted else _ANTHROPIC) + signature.encode()


def anthropic_signature(kept: bytes | None) -> str | None:
    """Anthropic's signature in what a content keeps; None for that of another service."""
    return kept.removeprefix(_ANTHROPIC).decode() if kept is not None and kept.startswith(_ANTHROPIC) else None


def anthropic_redacted(kept: bytes | None) -> str | None:
    """A thought that Anthropic does not show, in what a content keeps; None if it is something else."""
    if kept is None or not kept.startswith(_ANTHROPIC_REDACTED):
        return None
    return kept.removeprefix(_ANTHROPIC_REDACTED).decode()


def is_foreign_to_gemini(kept: bytes) -> bool:
    """True for what another service than Gemini has signed."""
    return kept.startswith((_ANTHROPIC, _ANTHROPIC_REDACTED))


_NESTED = ("anyOf", "oneOf", "allOf", "prefixItems")


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """The schema with all properties required and no others allowed.

    Args:
        schema: of an object; it is not changed.

    Returns:
        A copy; None when it cannot be strict: it is not of an object, or somewhere takes an object with any keys.
    """
    try:
        found = _strict(schema, schema, ())
    except _NotStrictError:
        return None
    return found if found.get("type") == "object" else None


def instruction_for(text: str) -> str:
    """The instruction to answer in the schema, in words, where a service has no such setting.

    Args:
        text: the schema as JSON.
    """
    return f"Answer only with JSON that fits this JSON schema, without any other text:\n{text}"


class _NotStrictError(Exception):
    """The schema takes objects with any keys."""


def _strict(schema: JsonValue, root: JsonObject, inside: tuple[str, ...]) -> JsonObject:
    if not isinstance(schema, dict):
        raise _NotStrictError
    made = {key: value for key, value in schema.items() if key != "default"}
    reference = made.get("$ref")
    if isinstance(reference, str) and len(made) > 1:
        # A reference must stand alone, so what it refers to takes its place.
        if reference in inside:
            raise _NotStrictError
        del made["$ref"]
        return _strict({**_referred(reference, root), **made}, root, (*inside, reference))
    for group in ("properties", "$defs", "definitions"):
        if group in made:
            made[group] = {name: _strict(each, root, inside) for name, each in made[group].items()}
    for key in _NESTED:
        if key in made:
            made[key] = [_strict(each, root, inside) for each in made[key]]
    if "items" in made:
        made["items"] = _strict(made["items"], root, inside)
    if made.get("type") == "object":
        if made.get("additionalProperties") not in (None, False) or not made.get("properties") or "patternProperties" in made:
            raise _NotStrictError
        made |= {"required": list(made["properties"]), "additionalProperties": False}
    elif not made.keys() & {"type", "$ref", "enum", "const", *_NESTED}:
        raise _NotStrictError  # it takes anything
    return made


def _referred(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(found, dict) or step not in found:
            raise _NotStrictError
        found = found[step]
    if not isinstance(found, dict):
        raise _NotStrictError
    return found


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the call itself, not of the answer: `config.http_options`.

    Attributes:
        headers: further headers of the request.
        body: further fields of its body.
        timeout_s: None without a limit of its own.
    """

    headers: dict[str, str]
    body: JsonObject
    timeout_s: float | None = None


def server_timeout(timeout_s: float | None) -> dict[str, str]:
    """The header that says a time limit to Google's services. As the SDK's own option it would bound whole streams, too."""
    return {} if timeout_s is None else {"X-Server-Timeout": str(math.ceil(timeout_s))}


def call_options(config: JsonObject) -> CallOptions:
    """The options of one call."""
    given = config.get("http_options") or {}
    timeout_ms = given.get("timeout")
    return CallOptions(
        headers=dict(given.get("headers") or {}),
        body=dict(given.get("extra_body") or {}),
        timeout_s=timeout_ms / 1000 if timeout_ms else None,
    )
