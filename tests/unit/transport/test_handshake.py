"""The handshake by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.transport.protocol.frames import ProtocolError
from runtime.transport.protocol.handshake import (
    NONCE_BYTES,
    WELCOME_BYTES,
    Claim,
    ClientHandshake,
    HandshakeReply,
    ServerHandshake,
    Welcome,
)

Carry = Callable[[int, bytes], bytes]

SECRET = bytes(range(32))
NONCE, OTHER_NONCE = b"n" * NONCE_BYTES, b"m" * NONCE_BYTES
CLAIM = Claim(version=3, client=b"c" * 16, attempt=2**40, boot=b"b" * 16)


def shake_hands(client: ClientHandshake, server: ServerHandshake, carry: Carry) -> None:
    challenge = carry(1, server.challenge(carry(0, client.hello())))
    server.check(carry(2, client.prove(challenge)))
    client.check(carry(3, server.welcome(Welcome(HandshakeReply.ADMITTED))))


def test_both_sides_learn_what_the_other_says() -> None:
    client, server = ClientHandshake(SECRET, CLAIM, NONCE), ServerHandshake(SECRET, OTHER_NONCE)
    assert server.check(client.prove(server.challenge(client.hello()))) == CLAIM
    welcome = Welcome(HandshakeReply.ADMITTED, 5, 2**40)
    assert client.check(server.welcome(welcome)) == welcome


@given(message=st.integers(0, 3), place=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_bit_that_changes_on_the_way_is_noticed(message: int, place: int, bit: int) -> None:
    def carry(number: int, raw: bytes) -> bytes:
        if number != message:
            return raw
        changed = bytearray(raw)
        changed[place % len(raw)] ^= 1 << bit
        return bytes(changed)

    client, server = ClientHandshake(SECRET, CLAIM, NONCE), ServerHandshake(SECRET, OTHER_NONCE)
    with pytest.raises(ProtocolError):
        shake_hands(client, server, carry)


def test_the_proof_of_one_side_is_none_of_the_other() -> None:
    # A server without the secret that sends back what the client has sent.
    client = ClientHandshake(SECRET, CLAIM, NONCE)
    proof = client.prove(client.hello()[:32])
    with pytest.raises(ProtocolError):
        client.check(proof[-WELCOME_BYTES:])


@given(sizes=st.lists(st.integers(1, 40), min_size=1), rest=st.binary(max_size=50))
def test_messages_may_come_in_parts(sizes: list[int], rest: bytes) -> None:
    client, server = ClientHandshake(SECRET, CLAIM, NONCE), ServerHandshake(SECRET, OTHER_NONCE)
    parts = cycle(sizes)

    def carried(take: Callable[[bytes], bytes], data: bytes) -> bytes:
        answer = b""
        while data:
            size = next(parts)
            answer, data = answer + take(data[:size]), data[size:]
        return answer

    proof = carried(client.receive_data, carried(server.receive_data, client.hello()))
    assert carried(server.receive_data, proof) == b""
    assert server.claim == CLAIM
    welcome = Welcome(HandshakeReply.ADMITTED, memory=7)
    assert carried(client.receive_data, server.welcome(welcome) + rest) == b""
    assert (client.welcome, client.rest) == (welcome, rest)


def test_what_a_client_sends_before_it_is_welcome_is_refused() -> None:
    client, server = ClientHandshake(SECRET, CLAIM, NONCE), ServerHandshake(SECRET, OTHER_NONCE)
    with pytest.raises(ProtocolError, match="more than the handshake has"):
        server.receive_data(client.hello() + b".")


def test_a_secret_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 16 bytes, it has 5"):
        ServerHandshake(b"short", NONCE)
