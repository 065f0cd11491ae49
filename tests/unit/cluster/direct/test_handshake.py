"""The handshake by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.transport.direct.errors import ProtocolError
from runtime.cluster.transport.direct.wire.handshake import Admission, Claim, ClientHandshake, ServerHandshake, Welcome

Carry = Callable[[int, bytes], bytes]

SECRET = bytes(range(32))
CLAIM = Claim(version=3, client=b"c" * 16, attempt=2**40, boot=b"b" * 16)


def shake_hands(client: ClientHandshake, server: ServerHandshake, carry: Carry) -> None:
    challenge = carry(1, server.challenge(carry(0, client.hello())))
    server.check(carry(2, client.prove(challenge)))
    client.check(carry(3, server.welcome(Admission.NEW)))


def test_both_sides_learn_what_the_other_says() -> None:
    client, server = ClientHandshake(SECRET, CLAIM), ServerHandshake(SECRET)
    assert server.check(client.prove(server.challenge(client.hello()))) == CLAIM
    assert client.check(server.welcome(Admission.KNOWN, 5)) == Welcome(Admission.KNOWN, 5)


@given(message=st.integers(0, 3), place=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_bit_that_changes_on_the_way_is_noticed(message: int, place: int, bit: int) -> None:
    def carry(number: int, raw: bytes) -> bytes:
        if number != message:
            return raw
        changed = bytearray(raw)
        changed[place % len(raw)] ^= 1 << bit
        return bytes(changed)

    client, server = ClientHandshake(SECRET, CLAIM), ServerHandshake(SECRET)
    with pytest.raises(ProtocolError):
        shake_hands(client, server, carry)


def test_the_proof_of_one_side_is_none_of_the_other() -> None:
    # A server without the secret that sends back what the client has sent.
    client = ClientHandshake(SECRET, CLAIM)
    proof = client.prove(client.hello()[:32])
    with pytest.raises(ProtocolError):
        client.check(proof[-34:])


def test_no_two_handshakes_are_alike() -> None:
    hellos = {ClientHandshake(SECRET, CLAIM).hello() for _ in range(100)}
    nonces = {ServerHandshake(SECRET).challenge(hello) for hello in hellos}
    assert len(hellos) == len(nonces) == 100


def test_a_secret_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 16 bytes, it has 5"):
        ServerHandshake(b"short")
