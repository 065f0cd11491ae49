"""Connections of the simulation: bytes on their way, which may be torn, late, and cut at any place."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Pipe:
    """One direction of a connection.

    Attributes:
        on_the_way: bytes that were written and not read.
        is_ended: nothing comes after them.
        written: all that was ever written.
    """

    on_the_way: bytearray = field(default_factory=bytearray)
    is_ended: bool = False
    written: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        """Put bytes on their way, unless the connection was cut."""
        if not self.is_ended:
            self.on_the_way += data
            self.written += data

    def read(self, size: int) -> bytes:
        """Take the next bytes, some or all of so many."""
        data = bytes(self.on_the_way[:size])
        del self.on_the_way[:size]
        return data

    def cut(self, chance: random.Random) -> None:
        """End at any byte of those on the way."""
        if self.on_the_way:
            del self.on_the_way[chance.randint(0, len(self.on_the_way)) :]
        self.is_ended = True

    @property
    def is_drained(self) -> bool:
        """True when its reader has to notice that it is ended."""
        return self.is_ended and not self.on_the_way


@dataclass(eq=False)
class Wire:
    """A connection.

    Attributes:
        up, down: to the server and to the client.
    """

    up: Pipe = field(default_factory=Pipe)
    down: Pipe = field(default_factory=Pipe)

    def cut(self, chance: random.Random) -> None:
        """Break it. Each side notices when it has read what still comes."""
        self.up.cut(chance)
        self.down.cut(chance)
