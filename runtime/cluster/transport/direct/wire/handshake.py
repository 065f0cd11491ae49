"""How both sides of a connection prove that they have the deployment's secret, without sending it.

Rules of this file:
1. Four messages of fixed length: HELLO and PROOF from the client, CHALLENGE and WELCOME from the server. They are the same in
   all versions of the protocol, so that two versions can still prove themselves and then name what they speak.
2. A proof is HMAC-SHA256 of the side's name and all bytes that have travelled so far. Both sides have put a fresh nonce into
   them, so what was recorded proves nothing later, and the proof of one side is none of the other.
3. The client proves itself first. Without the secret it sees one random nonce, and nothing of the server.
4. Nothing here does I/O. A message that is wrong raises ProtocolError.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum

from runtime.cluster.transport.direct.endpoint import BOOT_BYTES
from runtime.cluster.transport.direct.errors import ProtocolError

VERSION = 2
"""Of the frames that follow the handshake."""

CLIENT_BYTES = 16
"""Length of a client's random id."""

MIN_SECRET_BYTES = 16
"""The shortest secret: a shorter one could be guessed from a recorded handshake."""

_MAGIC = b"rgd"
_NONCE_BYTES = 32
_MAC_BYTES = 32
_HELLO = struct.Struct(f">{len(_MAGIC)}sB{_NONCE_BYTES}s")
_CLAIM = struct.Struct(f">{CLIENT_BYTES}sQ{BOOT_BYTES}s")
_WELCOME = struct.Struct(">BB")

HELLO_BYTES = _HELLO.size
CHALLENGE_BYTES = _NONCE_BYTES
PROOF_BYTES = _CLAIM.size + _MAC_BYTES
WELCOME_BYTES = _WELCOME.size + _MAC_BYTES


class Admission(IntEnum):
    """What a server says to a client that has proven itself. It closes the connection after the last three."""

    NEW = 0
    KNOWN = 1
    OTHER_BOOT = 2
    OTHER_VERSION = 3
    OVERTAKEN = 4


@dataclass(frozen=True)
class Claim:
    """Who a client says it is, proven.

    Attributes:
        version: of the protocol that it speaks.
        client: its random id.
        attempt: the number of this attempt to connect; each of a client's attempts has a higher one.
        boot: of the process that it wants to speak to.
    """

    version: int
    client: bytes
    attempt: int
    boot: bytes


@dataclass(frozen=True)
class Welcome:
    """What a server answers, proven.

    Attributes:
        admission: whether it takes the connection.
        version: of the protocol that it speaks.
    """

    admission: Admission
    version: int


class _Side:
    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the secret of direct connections needs {MIN_SECRET_BYTES} bytes, it has {len(secret)}")
        self._secret = secret
        self._travelled = b""

    def _mac(self, side: bytes) -> bytes:
        return hmac.digest(self._secret, side + b"\0" + self._travelled, hashlib.sha256)

    def _signed(self, side: bytes, message: bytes) -> bytes:
        self._travelled += message
        mac = self._mac(side)
        self._travelled += mac
        return message + mac

    def _check(self, side: bytes, message: bytes) -> bytes:
        body, mac = message[:-_MAC_BYTES], message[-_MAC_BYTES:]
        self._travelled += body
        if not hmac.compare_digest(mac, self._mac(side)):
            raise ProtocolError("it does not have the secret")
        self._travelled += mac
        return body


class ClientHandshake(_Side):
    """The client's side of one handshake. Its methods are called once each, in this order.

    Args:
        secret: of the deployment.
        claim: of this connection.
    """

    def __init__(self, secret: bytes, claim: Claim) -> None:
        super().__init__(secret)
        self._claim = claim

    def hello(self) -> bytes:
        """The first message."""
        self._travelled = _HELLO.pack(_MAGIC, self._claim.version, secrets.token_bytes(_NONCE_BYTES))
        return self._travelled

    def prove(self, challenge: bytes) -> bytes:
        """The answer to the server's challenge."""
        self._travelled += challenge
        return self._signed(b"client", _CLAIM.pack(self._claim.client, self._claim.attempt, self._claim.boot))

    def check(self, welcome: bytes) -> Welcome:
        """What the server answers. Raises ProtocolError when it does not have the secret."""
        admission, version = _WELCOME.unpack(self._check(b"server", welcome))
        try:
            return Welcome(Admission(admission), version)
        except ValueError:
            raise ProtocolError(f"it answers {admission} in version {version} of the protocol") from None


class ServerHandshake(_Side):
    """The server's side of one handshake. Its methods are called once each, in this order."""

    def challenge(self, hello: bytes) -> bytes:
        """The answer to the client's first message. Raises ProtocolError."""
        magic, self._version, _ = _HELLO.unpack(hello)
        if magic != _MAGIC:
            raise ProtocolError("it does not speak this protocol")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self._travelled = hello + nonce
        return nonce

    def check(self, proof: bytes) -> Claim:
        """Who the client is. Raises ProtocolError when it does not have the secret."""
        client, attempt, boot = _CLAIM.unpack(self._check(b"client", proof))
        return Claim(self._version, client, attempt, boot)

    def welcome(self, admission: Admission, version: int = VERSION) -> bytes:
        """The last message."""
        return self._signed(b"server", _WELCOME.pack(admission, version))
