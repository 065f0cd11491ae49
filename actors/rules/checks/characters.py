"""Texts without halves of surrogate pairs, which are no characters and have no bytes: services cut texts anywhere."""

from __future__ import annotations

from actors.messages.json_types import JsonValue


def joined(text: str) -> str:
    """The text with the halves of each surrogate pair joined; U+FFFD stands for a half without its other half."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def joined_in(value: JsonValue) -> JsonValue:
    """A copy of a JSON value, in which all texts and keys are `joined`."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, dict):
        return {joined(key) if isinstance(key, str) else key: joined_in(each) for key, each in value.items()}
    return [joined_in(each) for each in value] if isinstance(value, list | tuple) else value


class TextInPieces:
    """A text that comes in pieces: a half at the end of one waits for the next one."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Take in the next piece. Returns what can be shown now."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return joined(text.removesuffix(self._half))
