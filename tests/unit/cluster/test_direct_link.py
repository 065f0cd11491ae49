"""Messages to a process that listens: what Ray says of it decides. Real sockets, without Ray."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from actors.errors import ActorLostError, ActorRestartsError, ClusterError
from actors.interfaces.transport import Link
from runtime.cluster.transport import wires
from runtime.cluster.transport.direct.endpoint import Endpoint
from runtime.cluster.transport.direct.server import Server
from runtime.cluster.transport.peer import BY_RAY_S
from runtime.cluster.transport.wires import WireOptions, Wires

SECRET = b"s" * 32
NODE = "here"
OFTEN = 4


class Process:
    """A process with an actor in it, that listens.

    Attributes:
        got: the messages that arrived, with their slots.
        answer: what the actor does with a message.
    """

    def __init__(self, folder: Path) -> None:
        self.got: list[tuple[bytes, int]] = []
        self.answer: Callable[[bytes], Awaitable[bytes]] = self.echo
        self.server = Server(self._receive, SECRET, NODE, folder / "sockets")

    async def echo(self, raw: bytes) -> bytes:
        return raw

    async def _receive(self, raw: bytes, slot: int) -> bytes:
        self.got.append((raw, slot))
        return await self.answer(raw)


class Method:
    """Stands in for a method of Ray's handle."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self.remote = call


class RayHandle:
    """Stands in for Ray's handle of an actor: says where its process listens, or what has become of it.

    Attributes:
        says: an endpoint, None where messages come over Ray, or an error.
        asked: how often it was asked.
        asked_often: set when that was OFTEN.
        got: messages that came over Ray.
    """

    def __init__(self, says: Endpoint | Exception | None) -> None:
        self.says = says
        self.asked = 0
        self.asked_often = asyncio.Event()
        self.got: list[tuple[bytes, int]] = []
        self.endpoint = Method(self._endpoint)
        self.receive = Method(self._receive)

    async def _endpoint(self) -> Endpoint | None:
        self.asked += 1
        if self.asked == OFTEN:
            self.asked_often.set()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    async def _receive(self, raw: bytes, slot: int = 0) -> bytes:
        self.got.append((raw, slot))
        return b"over Ray"


class Network:
    """The processes of a test, and one that sends to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[Process] = []
        self.wires = Wires(WireOptions("direct", SECRET))

    def process(self) -> Process:
        self._processes.append(Process(self._folder))
        return self._processes[-1]

    def link(self, handle: Any, *, patience_s: float = 0.0, slot: int = 0) -> Link:
        return self.wires.peer(handle, "a process").link("agent 'a'", patience_s, slot)

    def unreached(self) -> list[str]:
        return [each.peer for each in self.wires.figures().unreached]

    async def close(self) -> None:
        await self.wires.close()
        for process in self._processes:
            await process.server.close()


async def replaced_while_it_works(network: Network) -> tuple[RayHandle, Process, Process]:
    """A handle of a process that gives way to another one as soon as a message arrives, and both processes."""
    old, new = network.process(), network.process()
    handle = RayHandle(await old.server.start())
    restarted = await new.server.start()

    async def dies(raw: bytes) -> bytes:
        handle.says = restarted
        await old.server.close()
        return await asyncio.Future[bytes]()

    old.answer = dies
    return handle, old, new


@pytest.fixture
async def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    monkeypatch.setattr(wires, "_node", lambda: NODE)
    network = Network(tmp_path)
    yield network
    await network.close()


async def test_a_message_goes_over_the_connection_and_ray_is_asked_once(network: Network) -> None:
    process = network.process()
    handle = RayHandle(await process.server.start())
    to_third = network.link(handle, slot=3)
    assert await asyncio.gather(*(to_third.send(b"%d" % number) for number in range(5))) == [b"0", b"1", b"2", b"3", b"4"]
    assert (handle.asked, handle.got) == (1, [])
    assert process.got == [(b"%d" % number, 3) for number in range(5)]


async def test_without_an_endpoint_messages_go_over_ray(network: Network) -> None:
    handle = RayHandle(None)
    assert await network.link(handle, slot=2).send(b"hi") == b"over Ray"
    assert handle.got == [(b"hi", 2)]


async def test_where_no_connection_can_be_made_messages_go_over_ray_and_the_log_says_so_once(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = network.process()
    handle = RayHandle(await process.server.start())
    to_it = network.link(handle)
    await process.server.close()
    assert await to_it.send(b"one") == b"over Ray"
    asked = handle.asked
    assert await to_it.send(b"two") == b"over Ray"
    assert (handle.asked, [raw for raw, _ in handle.got]) == (asked, [b"one", b"two"])
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "messages go over Ray, since there is no direct connection"
    ]
    assert network.unreached() == ["a process"]
    # After a while a connection is tried again.
    another = network.process()
    handle.says = await another.server.start()
    loop = asyncio.get_running_loop()
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + BY_RAY_S, raising=False)
    assert await to_it.send(b"three") == b"three"
    assert network.unreached() == []


async def test_who_cannot_be_reached_is_told_with_the_time_and_the_reason_until_it_is_ended(network: Network) -> None:
    near, process = network.process(), network.process()
    assert await network.link(RayHandle(await near.server.start())).send(b"hi") == b"hi"
    handle: Any = RayHandle(await process.server.start())
    links = network.wires.peer(handle, "a process")
    await process.server.close()
    begun_s = time.time()
    assert await links.link("agent 'a'").send(b"one") == b"over Ray"
    (unreached,) = network.wires.figures().unreached
    assert begun_s <= unreached.since_s <= time.time()
    assert (unreached.peer, unreached.reason.split(": ")[1]) == ("a process", "nothing listens there")
    links.forget()
    assert network.unreached() == []


async def test_a_process_that_ray_calls_dead_is_lost(network: Network) -> None:
    process = network.process()
    handle = RayHandle(await process.server.start())
    to_it = network.link(handle, patience_s=10.0)
    await to_it.send(b"hi")
    await process.server.close()
    handle.says = ActorDiedError()
    with pytest.raises(ActorLostError, match="agent 'a'"):
        await to_it.send(b"hi")


async def test_a_message_to_a_process_that_is_replaced_while_it_works_is_sent_again_only_if_it_may_be(network: Network) -> None:
    handle, old, new = await replaced_while_it_works(network)
    assert await network.link(handle, patience_s=10.0).send(b"again") == b"again"
    assert (old.got, new.got) == ([(b"again", 0)], [(b"again", 0)])


@pytest.mark.parametrize(("patience_s", "error"), [(10.0, ActorRestartsError), (0.0, ActorLostError)])
async def test_a_message_that_may_go_only_once_fails_when_its_process_is_replaced(
    network: Network, patience_s: float, error: type[Exception]
) -> None:
    handle, _, new = await replaced_while_it_works(network)
    to_it = network.link(handle, patience_s=patience_s)
    with pytest.raises(error, match="agent 'a'"):
        await to_it.send(b"pay", once=True)
    assert new.got == []
    assert await to_it.send(b"next", once=True) == b"next"


async def test_who_is_being_restarted_is_waited_for(network: Network) -> None:
    old, new = network.process(), network.process()
    handle = RayHandle(await old.server.start())
    to_it = network.link(handle, patience_s=10.0)
    await to_it.send(b"hi")
    await old.server.close()
    handle.says = ActorUnavailableError("it is away", None)
    sending = asyncio.create_task(to_it.send(b"later"))
    await handle.asked_often.wait()
    handle.says = await new.server.start()
    assert await sending == b"later"
    assert new.got == [(b"later", 0)]


async def test_a_host_that_fails_says_so(network: Network) -> None:
    process = network.process()

    async def fails(raw: bytes) -> bytes:
        raise KeyError("slot")

    process.answer = fails
    with pytest.raises(ClusterError, match=r"agent 'a' failed: KeyError: 'slot'"):
        await network.link(RayHandle(await process.server.start())).send(b"hi")
