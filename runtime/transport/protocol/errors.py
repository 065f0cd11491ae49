"""Errors that the bytes of a peer stand for, or are."""

from __future__ import annotations


class HandlerFailedError(Exception):
    """The handler of a request has raised an error.

    Attributes:
        kind: the name of the error's class.
        text: its message.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class ProtocolError(Exception):
    """The bytes from a peer are not of the protocol. Its connection has to be closed."""
