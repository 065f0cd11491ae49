"""Defects that are put into the protocol, each of which a seed has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from runtime.transport.protocol import server as server_module
from runtime.transport.protocol.client import ClientRequest, ClientSide
from runtime.transport.protocol.errors import ProtocolError
from runtime.transport.protocol.frames import BEAT, HEADER, Kind
from runtime.transport.protocol.handshake import NONCE_BYTES, Claim, HandshakeReply, ServerHandshake
from runtime.transport.protocol.outbox import LongMessage
from runtime.transport.protocol.reader import FrameReader
from runtime.transport.protocol.server import ServerSide

Mutant = Callable[[], Any]

MUTANTS: dict[str, Mutant] = {}
"""Context managers, by name."""


def _mutant(owner: type, **methods: object) -> Callable[[], Iterator[None]]:
    def put() -> Iterator[None]:
        with ExitStack() as stack:
            for name, method in methods.items():
                stack.enter_context(patch.object(owner, name, method))
            yield

    return put


def _add(name: str, owner: type, **methods: object) -> None:
    MUTANTS[name] = contextmanager(_mutant(owner, **methods))


# Of the client.

Side = ClientSide[ClientRequest]


def _no_acknowledgement(self: Side, number: int, size: int) -> None:
    pass


_connected = ClientSide.connected


def _repeats_in_another_order(self: Side, memory: int) -> list[ClientRequest]:
    self._sent = dict(reversed(self._sent.items()))
    return _connected(self, memory)


def _does_not_look_at_the_memory(self: Side, memory: int) -> list[ClientRequest]:
    self._memory = memory
    return _connected(self, memory)


def _acknowledges_again(self: Side, memory: int) -> list[ClientRequest]:
    late = [*self._unacknowledged]
    lost = _connected(self, memory)
    self._unacknowledged = late
    return lost


def _repeats_nothing(self: Side, memory: int) -> list[ClientRequest]:
    sent, self._sent = self._sent, {}
    lost = _connected(self, memory)
    self._sent = sent
    return lost


def _reads_on_where_it_was(self: Side, memory: int) -> list[ClientRequest]:
    reader = self._reader
    lost = _connected(self, memory)
    self._reader = reader
    return lost


_send = ClientSide.send


def _acknowledges_early(self: Side, request: ClientRequest) -> None:
    _send(self, request)
    self._acknowledge(request.number, 0)


def _keeps_what_is_over(self: Side, number: int, payload: bytes) -> ClientRequest | None:
    self._acknowledge(number, len(payload))
    return self._sent.get(number)


_add("the client acknowledges nothing", ClientSide, _acknowledge=_no_acknowledgement)
_add("the client acknowledges before the reply", ClientSide, send=_acknowledges_early)
_add("the client acknowledges on a connection what it had from another", ClientSide, connected=_acknowledges_again)
_add("the client repeats requests in another order", ClientSide, connected=_repeats_in_another_order)
_add("the client repeats nothing", ClientSide, connected=_repeats_nothing)
_add("the client does not notice that it was forgotten", ClientSide, connected=_does_not_look_at_the_memory)
_add("the client reads a connection on where another was cut", ClientSide, connected=_reads_on_where_it_was)
_add("the client keeps requests that have their replies", ClientSide, _answered=_keeps_what_is_over)

# Of the server.

_is_new = ServerSide._is_new
_want = ServerSide._want
_tick = ServerSide.tick
_write = ServerSide._write
_end = ServerSide._end
_acknowledge = ServerSide._acknowledge


def _runs_copies(self: ServerSide, number: int) -> bool:
    self._copies.discard(number)
    return True


def _forgets_copies(self: ServerSide, numbers: Iterable[int]) -> None:
    _acknowledge(self, numbers)
    self._settled.clear()


def _does_not_know_what_comes(self: ServerSide, number: int, reply: Any) -> None:
    copies, self._copies = self._copies, set()
    _write(self, number, reply)
    self._copies = copies


def _writes_again(self: ServerSide, number: int) -> bool:
    self._copies.discard(number)
    if (kept := self._replies.get(number)) is not None:
        _write(self, number, kept)
        return False
    return _is_new(self, number)


def _keeps_what_is_not_wanted(self: ServerSide, numbers: Iterable[int], *, is_last: bool) -> None:
    _want(self, [*numbers, *self._replies, *self._running], is_last=is_last)


def _does_not_repeat_replies(self: ServerSide, numbers: Iterable[int], *, is_last: bool) -> None:
    with patch.object(ServerSide, "_write", lambda self, number, reply: None):
        _want(self, numbers, is_last=is_last)


def _writes_before_it_knows_what_waits(self: ServerSide, number: int, reply: Any) -> None:
    begun, self._has_begun = self._has_begun, True
    _end(self, number, reply)
    self._has_begun = begun


def _counts_what_is_on_the_way(self: ServerSide) -> None:
    has_acknowledged = self._has_acknowledged
    _tick(self)
    if self.kept_bytes - self.outbox.unwritten_bytes > self._max_unwritten_bytes and not has_acknowledged and not self.must_wait:
        raise ProtocolError("acknowledges none")


_disconnected = ServerSide.disconnected


def _keeps_copies_of_a_cut_connection(self: ServerSide) -> None:
    copies, settled = set(self._copies), set(self._settled)
    _disconnected(self)
    self._copies, self._settled = copies, settled


def _reads_on_after_a_cut(self: ServerSide) -> None:
    reader = self._reader
    _disconnected(self)
    self._reader = reader


def _admits_all(claim: Claim, boot: bytes, known: ServerSide | None) -> HandshakeReply:
    return HandshakeReply.ADMITTED if claim.boot == boot else HandshakeReply.OTHER_BOOT


def _replies_early_to_all(self: ServerSide, number: int, payload: bytes) -> None:
    self.outbox.put_frames(HEADER.pack(len(payload), Kind.REPLY, number, 0) + payload)


def _beats_in_between(self: ServerSide) -> None:
    _tick(self)
    self.outbox.put_frames(BEAT[:-1])


@contextmanager
def _overtaken() -> Iterator[None]:
    with patch.object(server_module, "judge", _admits_all):
        yield


_add("the server runs copies", ServerSide, _is_new=_runs_copies)
_add("the server keeps the reply to a long request that was given up", ServerSide, _acknowledge=_forgets_copies)
_add(
    "the server runs the copy of a long request whose reply is acknowledged",
    ServerSide,
    _acknowledge=_forgets_copies,
    _write=_does_not_know_what_comes,
)
_add("the server writes a reply again when a copy of its request comes", ServerSide, _is_new=_writes_again)
_add("the server keeps replies that nothing waits for", ServerSide, _want=_keeps_what_is_not_wanted)
_add("the server repeats no replies", ServerSide, _want=_does_not_repeat_replies)
_add("the server replies before it knows what waits", ServerSide, _end=_writes_before_it_knows_what_waits)
_add("the server takes a long reply on a slow connection for a read one", ServerSide, tick=_counts_what_is_on_the_way)
_add("the server waits for copies of a connection that was cut", ServerSide, disconnected=_keeps_copies_of_a_cut_connection)
_add("the server reads a connection on where another was cut", ServerSide, disconnected=_reads_on_after_a_cut)
_add("the server sends an early reply as the last", ServerSide, reply_early=_replies_early_to_all)
_add("a heartbeat is not whole", ServerSide, tick=_beats_in_between)
MUTANTS["the server admits attempts that were overtaken"] = _overtaken

# Of the frames and the handshake.

_next_frame = LongMessage.next_frame


def _loses_the_last_byte(self: LongMessage) -> tuple[bytes, memoryview]:
    head, piece = _next_frame(self)
    if not self._left:
        piece = piece[:-1]
        head = len(piece).to_bytes(4, "big") + head[4:]
    return head, piece


def _mixes_pieces(self: FrameReader, number: int, last: bytes) -> bytes:
    self._pieces_bytes = 0
    pieces = [piece for each in self._pieces.values() for piece in each]
    self._pieces.clear()
    return b"".join((*pieces, last))


_handshake = ServerHandshake.__init__


def _always_the_same(self: ServerHandshake, secret: bytes, nonce: bytes) -> None:
    _handshake(self, secret, bytes(NONCE_BYTES))


_add("the last piece loses its last byte", LongMessage, next_frame=_loses_the_last_byte)
_add("the pieces of several messages are mixed", FrameReader, _whole=_mixes_pieces)
_add("a handshake that was recorded proves something", ServerHandshake, __init__=_always_the_same)


@contextmanager
def _at_once() -> Iterator[None]:
    with patch("runtime.transport.protocol.outbox.LONG_AT_ONCE", 100):
        yield


MUTANTS["more long messages are written at once than are read"] = _at_once
