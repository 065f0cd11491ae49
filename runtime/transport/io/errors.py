"""Why a request over a direct connection has no reply. Links turn these into the errors of actors."""

from __future__ import annotations

from enum import Enum


class Loss(Enum):
    """What is known of a connection that is lost."""

    REFUSED = "nothing listens there"
    UNREACHABLE = "it does not answer"
    NOT_ADMITTED = "it closes connections before both sides are proven: are the secret and TLS the same?"
    CUT = "connections to it break at once"
    OTHER_BOOT = "another process listens there"
    OTHER_VERSION = "it speaks another version of the protocol"
    FORGOTTEN = "it has forgotten this client, which was away for too long"
    CLOSED = "the connection was closed on this side"

    @property
    def is_final(self) -> bool:
        """True when a request that was sent will never get its reply, however often the connection is made again."""
        return self in (Loss.OTHER_BOOT, Loss.OTHER_VERSION, Loss.FORGOTTEN, Loss.CLOSED)


class ConnectionLostError(ConnectionError):
    """A request has no reply, because its peer cannot be reached.

    Attributes:
        address: the peer's.
        loss: what is known.
        was_sent: the request may have reached its handler. False: it certainly has not.
        details: more about the loss, or "".
    """

    def __init__(self, address: str, loss: Loss, was_sent: bool, details: str = "") -> None:
        super().__init__(address, loss, was_sent, details)
        self.address = address
        self.loss = loss
        self.was_sent = was_sent
        self.details = details

    def __str__(self) -> str:
        return f"connection to {self.address}: {self.loss.value}{f' ({self.details})' if self.details else ''}"
