"""How both sides of a connection prove that they have the deployment's secret, without sending it.

Rules of this file:
1. Four messages of fixed length: HELLO and PROOF from the client, CHALLENGE and WELCOME from the server. They are the same in
   all versions from 3 on, so that two versions can still prove themselves and then name what they speak.
2. A proof is HMAC-SHA256 of the side's name and all bytes that have travelled so far. Both sides have put a fresh nonce into
   them, so what was recorded proves nothing later, and the proof of one side is none of the other.
3. The client proves itself first. Without the secret it sees one random nonce, and nothing of the server.
4. A message that is wrong raises ProtocolError.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

from runtime.transport.protocol.frames import ProtocolError

VERSION = 3
"""Of the frames that follow the handshake."""

CLIENT_BYTES = 16
"""Length of a client's random id."""

BOOT_BYTES = 16
"""Length of the random id of one life of a process."""

NONCE_BYTES = 32
"""Length of the random bytes that each side brings to a handshake."""

MIN_SECRET_BYTES = 16
"""The shortest secret: a shorter one could be guessed from a recorded handshake."""

_MAGIC = b"rgd"
_MAC_BYTES = 32
_HELLO = struct.Struct(f">{len(_MAGIC)}sB{NONCE_BYTES}s")
_CLAIM = struct.Struct(f">{CLIENT_BYTES}sQ{BOOT_BYTES}s")
_WELCOME = struct.Struct(">BBQ")

HELLO_BYTES = _HELLO.size
CHALLENGE_BYTES = NONCE_BYTES
PROOF_BYTES = _CLAIM.size + _MAC_BYTES
WELCOME_BYTES = _WELCOME.size + _MAC_BYTES


class HandshakeReply(IntEnum):
    """What a server says to a client that has proven itself. It closes the connection after the last three."""

    ADMITTED = 0
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
        memory: what it knows of this client has this number. Another one than before: it has forgotten all requests.
    """

    admission: HandshakeReply
    version: int = VERSION
    memory: int = 0


class _Side:
    def __init__(self, secret: bytes, nonce: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the secret of direct connections needs {MIN_SECRET_BYTES} bytes, it has {len(secret)}")
        self._secret = secret
        self._nonce = nonce
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
    """The client's side of one handshake: `hello` is written, and `receive_data` gives what follows.

    Attributes:
        welcome: what the server answers; None until it is proven.
        rest: what was read after the handshake.

    Args:
        claim: of this connection.
        nonce: random.
    """

    def __init__(self, secret: bytes, claim: Claim, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self._claim = claim
        self._is_challenged = False
        self.welcome: Welcome | None = None
        self.rest = b""

    def receive_data(self, data: bytes) -> bytes:
        """Take what was read. Returns what is to be written. Raises ProtocolError when the server does not have the secret."""
        self.rest += data
        answer = b""
        if not self._is_challenged and len(self.rest) >= CHALLENGE_BYTES:
            self._is_challenged = True
            answer, self.rest = self.prove(self.rest[:CHALLENGE_BYTES]), self.rest[CHALLENGE_BYTES:]
        if self._is_challenged and self.welcome is None and len(self.rest) >= WELCOME_BYTES:
            self.welcome, self.rest = self.check(self.rest[:WELCOME_BYTES]), self.rest[WELCOME_BYTES:]
        return answer

    def hello(self) -> bytes:
        """The first message."""
        self._travelled = _HELLO.pack(_MAGIC, self._claim.version, self._nonce)
        return self._travelled

    def prove(self, challenge: bytes) -> bytes:
        """The answer to the server's challenge."""
        self._travelled += challenge
        return self._signed(b"client", _CLAIM.pack(self._claim.client, self._claim.attempt, self._claim.boot))

    def check(self, welcome: bytes) -> Welcome:
        """Check the server's answer. Raises ProtocolError when it does not have the secret."""
        admission, version, memory = _WELCOME.unpack(self._check(b"server", welcome))
        try:
            return Welcome(HandshakeReply(admission), version, memory)
        except ValueError:
            raise ProtocolError(f"it answers {admission} in version {version} of the protocol") from None


class ServerHandshake(_Side):
    """The server's side of one handshake: `receive_data` gives what is to be written, until there is a claim to `welcome`.

    Attributes:
        claim: of the client; None until it is proven.

    Args:
        nonce: random.
    """

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self._read = b""
        self._is_greeted = False
        self.claim: Claim | None = None

    def receive_data(self, data: bytes) -> bytes:
        """Take what was read. Returns what is to be written. Raises ProtocolError, also for more than the handshake has."""
        self._read += data
        needed = PROOF_BYTES if self._is_greeted else HELLO_BYTES
        if len(self._read) > needed or self.claim is not None:
            raise ProtocolError("it sends more than the handshake has")
        if len(self._read) < needed:
            return b""
        message, self._read = self._read, b""
        if self._is_greeted:
            self.claim = self.check(message)
            return b""
        self._is_greeted = True
        return self.challenge(message)

    def challenge(self, hello: bytes) -> bytes:
        """The answer to the client's first message. Raises ProtocolError."""
        magic, self._version, _ = _HELLO.unpack(hello)
        if magic != _MAGIC:
            raise ProtocolError("it does not speak this protocol")
        self._travelled = hello + self._nonce
        return self._nonce

    def check(self, proof: bytes) -> Claim:
        """Who the client is. Raises ProtocolError when it does not have the secret."""
        client, attempt, boot = _CLAIM.unpack(self._check(b"client", proof))
        return Claim(self._version, client, attempt, boot)

    def welcome(self, welcome: Welcome) -> bytes:
        """The last message."""
        return self._signed(b"server", _WELCOME.pack(welcome.admission, welcome.version, welcome.memory))
