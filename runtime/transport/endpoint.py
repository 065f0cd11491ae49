"""Where a process listens, and which life of it that is."""

from __future__ import annotations

import secrets

import msgspec

from runtime.transport.protocol.handshake import BOOT_BYTES


class Endpoint(msgspec.Struct, frozen=True):
    """Where a server listens, as it tells itself.

    Attributes:
        node: its machine. Clients that name the same node use the Unix socket.
        path: of the Unix socket; "" where it has none.
        host, port: of its TCP socket; port 0 where it has none.
        boot: a random id of this life of the process. Whatever listens at the same address later has another one.
    """

    node: str
    path: str
    host: str
    port: int
    boot: bytes

    def is_near(self, node: str) -> bool:
        """True when a client on that node uses the Unix socket."""
        return bool(self.path) and node == self.node

    def address(self, node: str) -> str:
        """The address to which a client on that node connects, for messages and logs."""
        return self.path if self.is_near(node) else f"{self.host}:{self.port}"


def new_boot() -> bytes:
    """A random id for a process that begins to listen."""
    return secrets.token_bytes(BOOT_BYTES)
