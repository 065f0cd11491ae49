"""One simulation: clients, a server and their connections take steps in an order that a seed decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import msgspec

from runtime.transport.protocol.handshake import HELLO_BYTES
from tests.simulation.frame import Left
from tests.simulation.transport.processes import ClientProcess, Request, ServedClient, ServerProcess, Wire

MAX_PAYLOAD = 64
"""Bytes of a payload here, so that long messages are cheap."""

STEPS = 1_000
QUIET_STEPS = 2_000

SMALLER = {
    "frames._NUMBERS_A_FRAME": MAX_PAYLOAD // 8,
    "frames.MAX_PAYLOAD": MAX_PAYLOAD,
    "frames.GATHERED_BYTES": 100,
    "client.MAX_PAYLOAD": MAX_PAYLOAD,
    "client.ACK_REPLIES": 4,
    "client.ACK_BYTES": 200,
    "client.MAX_WAITING_BYTES": 300,
    "server.MAX_PAYLOAD": MAX_PAYLOAD,
}


@contextmanager
def small() -> Iterator[None]:
    """Have the protocol take smaller payloads."""
    with ExitStack() as stack:
        for name, value in SMALLER.items():
            stack.enter_context(patch(f"runtime.transport.protocol.{name}", value))
        yield


class Step(msgspec.Struct, frozen=True):
    """A step that a process or the network takes. `seed`: decides of whom, and how."""

    name: str
    seed: int


class Walk(msgspec.Struct, frozen=True):
    """Steps, and then no more bad ones until all has come to its end."""

    steps: Sequence[Step]


USUAL: Mapping[str, float] = {
    "send": 12, "carry_up": 20, "carry_down": 20, "write": 10, "finish": 6, "reply_early": 2, "dial": 10, "beat": 2,
    "give_up": 0.7,
}  # fmt: skip
BAD: Mapping[str, float] = {"cut": 1, "hang_up": 0.7, "forget": 0.6, "restart": 0.1, "replay": 0.4}
"""How often each step is taken."""


def walk(seed: int) -> Walk:
    """The steps of a seed."""
    chance = random.Random(seed)
    luck = chance.choice([0.2, 1.0, 3.0])
    weights = {**USUAL, **{name: weight * luck for name, weight in BAD.items()}}
    names = chance.choices(list(weights), list(weights.values()), k=STEPS)
    return Walk([Step(name, chance.getrandbits(32)) for name in names])


def play(given: Walk, seed: int) -> Left:
    with small():
        return Left(problems=World(seed).play(given))


class World:
    """The processes, and the steps that they take.

    Attributes:
        problems: what must not have been.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._chance = random.Random(seed)
        self._requests = 0
        self._server = ServerProcess(self._chance, self.problems.append)
        self._clients = [ClientProcess(self._server, self._chance, self.problems.append) for _ in range(2)]
        self._replays: list[Wire] = []
        self._recorded: list[bytes] = []

    def play(self, given: Walk) -> list[str]:
        """Let bad things happen, then no more of them. Returns what must not have been."""
        for step in given.steps:
            self._chance.seed(step.seed)
            getattr(self, f"_{step.name}")()
            if self.problems:
                return self.problems
        self._calm_down()
        self._check_end()
        return self.problems

    def _any_client(self) -> ClientProcess:
        return self._chance.choice(self._clients)

    def _size(self) -> int:
        return self._chance.choice([1, 3, 20, 100, 1000])

    def _payload(self, begin: bytes) -> bytes:
        size = self._chance.choice([0, 10, MAX_PAYLOAD - 20, MAX_PAYLOAD, MAX_PAYLOAD + 1, 150, 400])
        return begin + self._chance.randbytes(max(0, size - len(begin)))

    def _send(self) -> None:
        client = self._any_client()
        if client.is_proven and client.side.has_room:
            self._requests += 1
            client.send(Request(self._payload(b"%d " % self._requests), self._chance.choice([0, 1, 2**32 - 1]), 0))

    def _carry_up(self) -> None:
        if wires := self._server.wires:
            self._server.read(wire := self._chance.choice(wires), self._size())
            if wire in self._replays and self._server.admitted(wire):
                self.problems.append("a handshake that was recorded is admitted")

    def _carry_down(self) -> None:
        client = self._any_client()
        if not client.read(self._size()):
            self._begin_again(client)

    def _begin_again(self, client: ClientProcess) -> None:
        if client.server is self._server:
            self.problems.append("a server that is the same says that it is another one")
        self._check_requests(client)
        client.begin(self._server)

    def _write(self) -> None:
        self._any_client().write()
        for served in self._server.clients.values():
            self._server.write(served)

    def _served(self) -> tuple[ServedClient, ClientProcess, int] | None:
        """A request that is at work: whose it is, and its number."""
        running = [
            (served, client, number)
            for name, served in self._server.clients.items()
            for client in self._clients
            for number in served.running
            if client.name == name
        ]
        return self._chance.choice(running) if running else None

    def _finish(self) -> None:
        if (found := self._served()) is None:
            return
        served, client, number = found
        request = client.requests[number]
        if served.running.pop(number) != request.raw:
            self.problems.append(f"{request.raw[:20]!r} is not what the server runs")
        if self._chance.random() < 0.1:
            text = self._chance.choice(["no", "no " * 50])
            request.reply = f"failed:{text}".encode()
            served.side.failed(number, "ValueError", text)
        else:
            request.reply = self._payload(b"re %d " % number)
            served.side.reply(number, request.reply)
        self._server.take_events(served)

    def _reply_early(self) -> None:
        if (found := self._served()) is not None:
            served, client, number = found
            payload = b"early %d " % self._chance.getrandbits(64)
            client.requests[number].early.append(payload)
            served.side.reply_early(number, payload)

    def _dial(self) -> None:
        client = self._any_client()
        if client.wire is None:
            client.dial(self._server)

    def _beat(self) -> None:
        """Time passes: what a client writes then, the server has read before it counts again."""
        for client in self._clients:
            if not client.is_proven or client.wire is None:
                continue
            wire = client.wire
            if not client.side.tick():
                client.hang_up()
                continue
            served = self._server.clients.get(client.name)
            if served is None or served.wire is not wire:
                continue
            before = (-1, -1)
            while served.wire is wire and before != (len(wire.up.written), len(wire.up.on_the_way)):
                before = (len(wire.up.written), len(wire.up.on_the_way))
                client.write()
                self._server.read(wire, 10_000)
            if served.wire is wire:
                self._server.tick(served)

    def _give_up(self) -> None:
        client = self._any_client()
        waiting = [
            number
            for number, request in client.requests.items()
            if not (request.is_replied or request.is_lost or request.is_given_up)
        ]
        if waiting:
            client.give_up(self._chance.choice(waiting))

    def _cut(self) -> None:
        wire = self._any_client().wire
        if wire is not None:
            self._record(wire)
            wire.cut(self._chance)

    def _hang_up(self) -> None:
        client = self._any_client()
        if client.wire is not None:
            self._record(client.wire)
        client.hang_up()

    def _record(self, wire: Wire) -> None:
        if len(wire.up.written) > HELLO_BYTES:
            self._recorded.append(bytes(wire.up.written))

    def _forget(self) -> None:
        away = [name for name, served in self._server.clients.items() if served.wire is None]
        if away:
            self._server.forget(self._chance.choice(away))

    def _restart(self) -> None:
        for wire in self._server.wires:
            wire.cut(self._chance)
        self._server = ServerProcess(self._chance, self.problems.append)

    def _replay(self) -> None:
        if self._recorded:
            recorded = self._chance.choice(self._recorded)
            wire = Wire()
            wire.up.write(recorded[:HELLO_BYTES])
            self._server.accept(wire)
            self._server.read(wire, HELLO_BYTES)
            wire.up.write(recorded[HELLO_BYTES:])
            self._replays.append(wire)

    def _calm_down(self) -> None:
        """Let all come to its end."""
        for _ in range(QUIET_STEPS):
            for step in (self._dial, self._write, self._carry_up, self._carry_down, self._finish):
                step()
            if self._chance.random() < 0.05:
                self._beat()
            if self.problems or self._is_quiet():
                break
        for _ in range(3):
            self._beat()

    def _is_quiet(self) -> bool:
        return all(client.is_proven and not self._waiting(client) and client.wire is not None
                   and not client.wire.up.on_the_way and not client.wire.down.on_the_way
                   and not client.side.outbox.unwritten_bytes for client in self._clients) and not any(
            served.running or served.side.outbox.unwritten_bytes for served in self._server.clients.values()
        )  # fmt: skip

    def _waiting(self, client: ClientProcess) -> list[Request]:
        return [each for each in client.requests.values() if not (each.is_replied or each.is_lost or each.is_given_up)]

    def _check_requests(self, client: ClientProcess) -> None:
        """What must hold of the order in which a client's requests were run."""
        sent = [request.raw for request in client.requests.values() if len(request.raw) <= MAX_PAYLOAD]
        ran = [raw for raw in client.server.ran.get(client.name, ()) if len(raw) <= MAX_PAYLOAD]
        if ran != [raw for raw in sent if raw in ran]:
            self.problems.append("short requests of one client are run in another order than they were sent in")

    def _check_end(self) -> None:
        for client in self._clients:
            self._check_requests(client)
            self.problems += [f"{request.raw[:20]!r} has no reply" for request in self._waiting(client)]
            served = self._server.clients.get(client.name)
            sides = [client.side, *([served.side] if served is not None else [])]
            for side in sides:
                kept = [name for name, value in vars(side).items() if isinstance(value, dict | set | list) and value]
                self.problems += [f"{name} of {type(side).__name__} is kept for ever" for name in kept]
