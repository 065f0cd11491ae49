"""Messages to a process that listens: what Ray says of it decides. Real sockets, without Ray."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from actors.errors import ActorLostError, ActorRestartsError, ClusterError
from actors.interfaces.transport import Link
from actors.rules.backoff import Backoff
from runtime.cluster.transport import peer, wires
from runtime.cluster.transport.link import RETRY_S, ProcessUnreachableError
from runtime.cluster.transport.peer import PATIENCE_S, PAUSE_S, QUIET_S
from runtime.cluster.transport.wires import WireOptions, Wires
from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import ConnectionLostError, Loss
from runtime.transport.io.channel import MAX_CUTS, Channel
from runtime.transport.io.server import Server
from tests.support.fixtures.direct_fixture import until
from tests.support.servers.cutting_proxy import Cut, CuttingProxy
from tests.support.virtual_time import run_virtually

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
        asked: how often it was asked, questions that are repeated before there is an answer not counted.
        repeated: how often such a question was asked again.
        asked_often: set when that was OFTEN.
        answers: cleared while the process answers nothing, as one that is stopped.
        is_answered: the last question has its answer.
        got: messages that came over Ray.
    """

    def __init__(self, says: Endpoint | Exception | None) -> None:
        self.says = says
        self.asked = 0
        self.repeated = 0
        self._open = 0
        self.asked_often = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.is_answered = False
        self.got: list[tuple[bytes, int]] = []
        self.endpoint = Method(self._endpoint)
        self.receive = Method(self._receive)

    async def _endpoint(self) -> Endpoint | None:
        if self._open:
            self.repeated += 1
        else:
            self.asked += 1
        if self.asked == OFTEN:
            self.asked_often.set()
        self.is_answered = False
        self._open += 1
        try:
            await self.answers.wait()
        finally:
            self._open -= 1
        self.is_answered = True
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
        self._proxies: list[CuttingProxy] = []
        self.wires = Wires(WireOptions("direct", SECRET))

    def process(self) -> Process:
        self._processes.append(Process(self._folder))
        return self._processes[-1]

    def link(self, handle: Any, *, patience_s: float = 0.0, slot: int = 0) -> Link:
        return self.wires.peer(handle, "a process").link("agent 'a'", patience_s, slot)

    def unreached(self) -> list[str]:
        return [each.peer for each in self.wires.figures().unreached]

    async def behind_proxy(self, process: Process) -> tuple[RayHandle, CuttingProxy]:
        """A process that is reached through a proxy, which holds connections up."""
        proxy = CuttingProxy(await process.server.start())
        self._proxies.append(proxy)
        return RayHandle(await proxy.start()), proxy

    async def close(self) -> None:
        await self.wires.close()
        for proxy in self._proxies:
            await proxy.close()
        for process in self._processes:
            await process.server.close()


class Clock:
    """The time of the event loop, which can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time
        self._skipped_s = 0.0
        monkeypatch.setattr(loop, "time", lambda: now_s() + self._skipped_s, raising=False)

    def skip(self, seconds: float) -> None:
        self._skipped_s += seconds

    async def run_until(self, condition: Callable[[], object]) -> None:
        """Let time fly until a condition holds."""
        while not condition():
            self.skip(0.01)
            await asyncio.sleep(0)


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
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
async def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    monkeypatch.setattr(wires, "this_node", lambda: NODE)
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
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    process = network.process()
    handle = RayHandle(await process.server.start())
    to_it = network.link(handle)
    await process.server.close()
    assert set(await asyncio.gather(to_it.send(b"one"), to_it.send(b"one"))) == {b"over Ray"}
    asked = handle.asked
    assert await to_it.send(b"two") == b"over Ray"
    assert (handle.asked, [raw for raw, _ in handle.got]) == (asked, [b"one", b"one", b"two"])
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "messages go over Ray, since there is no direct connection"
    ]
    assert network.unreached() == ["a process"]


async def test_a_connection_is_tried_again_after_a_while_and_no_message_waits_for_it(network: Network, clock: Clock) -> None:
    process = network.process()
    handle, proxy = await network.behind_proxy(process)
    to_it = network.link(handle)
    with proxy.frozen():
        sending = asyncio.create_task(to_it.send(b"one"))
        await clock.run_until(sending.done)
        assert (await sending, network.unreached()) == (b"over Ray", ["a process"])
        for text in (b"two", b"three"):
            clock.skip(PAUSE_S)
            tried = len(proxy.recorded)
            began_s = asyncio.get_running_loop().time()
            assert await to_it.send(text) == b"over Ray"
            assert asyncio.get_running_loop().time() - began_s < 1
            await clock.run_until(lambda: len(proxy.recorded) > tried)  # noqa: B023
            clock.skip(PAUSE_S)
            await until(lambda: not dialing())
    assert network.unreached() == ["a process"]
    clock.skip(PAUSE_S)
    assert await to_it.send(b"four") == b"over Ray"
    await until(lambda: not network.unreached())
    assert await to_it.send(b"five") == b"five"
    assert [raw for raw, _ in process.got] == [b"five"]


async def test_a_process_that_ends_while_a_connection_to_it_is_tried_again_leaves_nothing(network: Network, clock: Clock) -> None:
    process = network.process()
    handle, proxy = await network.behind_proxy(process)
    links = network.wires.peer(cast(Any, handle), "a process")
    to_it = links.link("agent 'a'")
    with proxy.frozen():
        sending = asyncio.create_task(to_it.send(b"one"))
        await clock.run_until(sending.done)
        clock.skip(PAUSE_S)
        assert await to_it.send(b"two") == b"over Ray"
        await clock.run_until(lambda: len(proxy.recorded) > 1)
        links.forget_process()
        await until(lambda: not dialing())
    assert network.unreached() == []


def dialing() -> list[asyncio.Task[Any]]:
    """The tasks that try a connection."""
    return [task for task in asyncio.all_tasks() if "RayFallback._try" in repr(task.get_coro())]


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
    links.forget_process()
    assert network.unreached() == []


async def test_nothing_is_kept_for_a_process_that_was_ended_and_who_waits_for_it_hears_of_its_loss(network: Network) -> None:
    others = channels()
    process = network.process()
    handle: Any = RayHandle(await process.server.start())
    began = asyncio.Event()

    async def works_for_ever(raw: bytes) -> bytes:
        began.set()
        await asyncio.Event().wait()
        return raw

    process.answer = works_for_ever
    links = network.wires.peer(handle, "a process")
    to_it = links.link("agent 'a'")
    waiting = asyncio.create_task(to_it.send(b"one"))
    await began.wait()
    handle.says = ActorDiedError()
    links.forget_process()
    for message in (waiting, to_it.send(b"two")):
        with pytest.raises(ActorLostError):
            await message
    # Errors keep what they were raised in.
    del waiting, message
    handle.says = None
    await until(lambda: not channels(others))


async def test_a_process_that_is_lost_with_a_message_leaves_nothing_for_the_collector(network: Network) -> None:
    process = network.process()
    handle = RayHandle(await process.server.start())
    began = asyncio.Event()

    async def works_for_ever(raw: bytes) -> bytes:
        began.set()
        return await asyncio.Future[bytes]()

    process.answer = works_for_ever
    links = network.wires.peer(handle, "a process")
    others = channels()
    gc.disable()
    try:
        waiting = asyncio.create_task(links.link("agent 'a'").send(b"one"))
        await began.wait()
        handle.says = ActorDiedError()
        await process.server.close()
        with pytest.raises(ActorLostError):
            await waiting
        links.forget_process()
        # Errors keep what they were raised in.
        del waiting
        handle.says = None
        await until(lambda: not kept(others))
    finally:
        gc.enable()


async def test_after_its_connections_are_closed_a_program_makes_no_other_one(network: Network) -> None:
    process, other = network.process(), network.process()
    handle, other_handle = RayHandle(await process.server.start()), RayHandle(await other.server.start())
    began = asyncio.Event()

    async def works_for_ever(raw: bytes) -> bytes:
        began.set()
        return await asyncio.Future[bytes]()

    process.answer = works_for_ever
    waiting = asyncio.create_task(network.link(handle).send(b"one"))
    await began.wait()
    asked = handle.asked
    await network.wires.close("Ray is away")
    for message in (waiting, network.link(handle).send(b"two"), network.link(other_handle).send(b"three")):
        with pytest.raises(ActorLostError, match="Ray is away"):
            await message
    assert network.wires.figures().made == 0
    # Ray may have ended.
    assert (handle.asked, other_handle.asked) == (asked, 0)
    assert (process.got, other.got) == ([(b"one", 0)], [])


def channels(others: Sequence[Channel] = ()) -> list[Channel]:
    """The channels that there are, but for those of a program that other tests of this process share."""
    gc.collect()
    return kept(others)


def kept(others: Sequence[Channel]) -> list[Channel]:
    """The same, also what only the collector would remove."""
    return [each for each in gc.get_objects() if isinstance(each, Channel) and each not in others]


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


async def test_a_question_that_ray_puts_aside_is_asked_again_until_one_is_answered(network: Network, clock: Clock) -> None:
    old, new = network.process(), network.process()
    handle = RayHandle(await old.server.start())
    to_it = network.link(handle, patience_s=10.0)
    await to_it.send(b"hi")
    restarted = await new.server.start()
    # The first questions come before Ray knows that the process is gone, and are answered too late.
    put_aside = 3
    questions = 0

    async def endpoint() -> Endpoint:
        nonlocal questions
        questions += 1
        if questions <= put_aside:
            await asyncio.Event().wait()
        return restarted

    handle.endpoint = Method(endpoint)
    await old.server.close()
    sending = asyncio.create_task(to_it.send(b"later"))
    began_s = asyncio.get_running_loop().time()
    await clock.run_until(sending.done)
    assert (await sending, questions) == (b"later", put_aside + 1)
    assert asyncio.get_running_loop().time() - began_s >= 0.03 + 0.045 + 0.0675


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


class Held:
    """A process that is at work on a message, and to which connections are made through a proxy."""

    def __init__(self, handle: RayHandle, proxy: CuttingProxy, process: Process, link: Link, *, once: bool) -> None:
        self.handle = handle
        self.proxy = proxy
        self.process = process
        self.link = link
        self.may_reply = asyncio.Event()
        process.answer = self._answer
        self.sending = asyncio.create_task(link.send(b"pay", once=once))

    async def _answer(self, raw: bytes) -> bytes:
        if raw != b"pay":
            return raw
        await self.may_reply.wait()
        return b"done"

    def cut_off(self) -> None:
        """From here on no connection reaches the process."""
        self.proxy.stop_listening()
        self.proxy.cut_all()

    def refuse(self, attempts: int) -> None:
        """Cut the connection, and let so many attempts to make another one fail."""
        self.proxy.cuts = [Cut(up=0)] * MAX_CUTS * attempts
        self.proxy.cut_all()


async def held(network: Network, *, patience_s: float = 0.0, once: bool = False) -> Held:
    process = network.process()
    handle, proxy = await network.behind_proxy(process)
    found = Held(handle, proxy, process, network.link(handle, patience_s=patience_s), once=once)
    await until(lambda: process.got)
    return found


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


@pytest.mark.parametrize("once", [True, False])
async def test_a_process_that_lives_and_is_out_of_reach_is_lost_after_a_while_and_gets_no_message_again(
    network: Network, caplog: pytest.LogCaptureFixture, once: bool
) -> None:
    found = await held(network, patience_s=0.5, once=once)
    handle, process, proxy = found.handle, found.process, found.proxy
    found.cut_off()
    lost = r"agent 'a' is gone: it lives, and could not be reached for \d+ s: connection to"
    with pytest.raises(ActorLostError, match=lost) as error:
        await found.sending
    assert not isinstance(error.value, ActorRestartsError)
    # Neither directly nor over Ray, since it may be at work on it.
    assert (process.got, handle.got) == ([(b"pay", 0)], [])
    (line,) = told(caplog, "has not been reached")
    assert line.startswith(f"the process at {proxy.endpoint.path} lives, and has not been reached for ")
    assert line.endswith("nothing listens there")
    # What was never sent goes over Ray.
    assert await network.link(handle).send(b"next") == b"over Ray"


async def test_a_process_that_is_reached_again_gets_no_message_twice(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "BACKOFF", Backoff(RETRY_S, 0.1))
    found = await held(network, patience_s=60.0)
    found.refuse(6)
    await found.handle.asked_often.wait()
    found.may_reply.set()
    assert await found.sending == b"done"
    assert (found.process.got, found.handle.got) == ([(b"pay", 0)], [])
    assert len(told(caplog, "has not been reached")) == 1


async def test_all_messages_to_a_process_out_of_reach_share_its_attempts(network: Network) -> None:
    found = await held(network, patience_s=0.5)
    others = [asyncio.create_task(found.link.send(b"pay")) for _ in range(50)]
    await until(lambda: len(found.process.got) == 51)
    found.cut_off()
    errors = await asyncio.gather(found.sending, *others, return_exceptions=True)
    assert {type(error) for error in errors} == {ActorLostError}
    # Once at the beginning, and after each attempt: at 0, 0.05, 0.15, 0.35 and 0.75 s, or later on a machine that is busy.
    assert found.handle.asked <= 1 + 5
    assert len(found.process.got) == 51


def test_pauses_between_attempts_grow() -> None:
    cause = ConnectionLostError("there", Loss.REFUSED, was_sent=True)
    attempts_s: list[float] = []

    async def attempt_again() -> None:
        channel: Any = SimpleNamespace(traffic=(0, 0), address="there")
        it = peer.Outage(channel)
        while True:
            await it.pause(cause, PATIENCE_S)
            attempts_s.append(asyncio.get_running_loop().time())

    with pytest.raises(ProcessUnreachableError, match=r"it lives, and could not be reached for 6[01] s: connection to there"):
        run_virtually(attempt_again())
    pauses_s = [later_s - earlier_s for earlier_s, later_s in pairwise([0.0, *attempts_s])]
    assert pauses_s == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8] + [1.0] * (len(pauses_s) - 5))
    assert attempts_s[-1] == pytest.approx(PATIENCE_S, abs=1.0)


async def test_a_process_that_is_stopped_is_waited_for_without_limit(
    network: Network, caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    found = await held(network)
    handle = found.handle
    with found.proxy.frozen():
        handle.answers.clear()
        # The connection is lost, another one is not answered, and Ray is asked.
        await clock.run_until(lambda: handle.asked == 2)
        await clock.run_until(lambda: told(caplog, f"answered neither directly nor over Ray for {QUIET_S:g} s"))
        clock.skip(100 * PATIENCE_S)
        # It goes on for a moment, in which it answers over Ray, and is stopped again.
        handle.answers.set()
        await until(lambda: handle.is_answered)
        handle.answers.clear()
        await clock.run_until(lambda: handle.asked == 3)
        clock.skip(100 * PATIENCE_S)
        handle.answers.set()
    found.may_reply.set()
    assert await found.sending == b"done"
    assert (found.process.got, handle.got) == ([(b"pay", 0)], [])
    assert not told(caplog, "has not been reached")


async def test_each_outage_has_the_whole_patience(network: Network, clock: Clock) -> None:
    found = await held(network)
    found.refuse(2)
    await until(lambda: found.handle.asked == 1 + 2)
    # It is reached again, and is at work for long.
    assert await found.link.send(b"another") == b"another"
    clock.skip(10 * PATIENCE_S)
    found.refuse(1)
    await until(lambda: found.handle.asked == 1 + 2 + 1)
    found.may_reply.set()
    assert await found.sending == b"done"
    assert found.process.got == [(b"pay", 0), (b"another", 0)]


async def test_a_process_that_dies_while_it_is_out_of_reach_is_lost(network: Network) -> None:
    found = await held(network, patience_s=60.0)
    found.cut_off()
    await found.handle.asked_often.wait()
    found.handle.says = ActorDiedError()
    with pytest.raises(ActorLostError, match="agent 'a'"):
        await found.sending


async def test_a_host_that_fails_says_so(network: Network) -> None:
    process = network.process()

    async def fails(raw: bytes) -> bytes:
        raise KeyError("slot")

    process.answer = fails
    with pytest.raises(ClusterError, match=r"agent 'a' failed: KeyError: 'slot'"):
        await network.link(RayHandle(await process.server.start())).send(b"hi")
