"""The one way onto the driver's event loop: open between start and end, and refused at all other times."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import DefinitionError, RaygroveError, RuntimeClosedError
from actors.testing import PatternModel
from runtime.driver.engine_client import EngineClient
from runtime.driver.event_loop import LoopCall
from runtime.engine.deployment import Deployment
from runtime.engine.local import LocalEngine
from tests.support.runtimes import Deploy


class Refusing(LocalEngine):
    """An engine that cannot be started."""

    async def start(self) -> None:
        raise DefinitionError("no")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    engine = Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([("", "hello")])))._client.engine
    assert isinstance(engine, LocalEngine)
    return engine._deployment


@pytest.fixture
def client(deployment: Deployment) -> EngineClient:
    return EngineClient("test", LocalEngine(deployment))


async def one() -> int:
    return 1


async def test_nothing_runs_before_the_start_nor_after_the_end(client: EngineClient) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeClosedError):
            client.run(one())
        with pytest.raises(RuntimeClosedError):
            await client.run_async(one())
        with pytest.raises(RuntimeClosedError):
            client.begin_call(one(), print)
        with pytest.raises(RuntimeClosedError):
            client.call_soon(print)
        with pytest.raises(RuntimeClosedError):
            client.end_loop()
        assert not client.is_current_thread()
        client.start()
        assert client.run(one()) == await client.run_async(one()) == 1
        client.end_loop(client.engine.stop)


def test_a_client_is_started_once_at_a_time(client: EngineClient) -> None:
    client.start()
    with pytest.raises(RaygroveError, match="is started already"):
        client.start()
    client.end_loop(client.engine.stop)


def test_a_start_that_fails_leaves_no_thread_and_may_be_tried_again(deployment: Deployment) -> None:
    client = EngineClient("test", Refusing(deployment))
    threads = set(threading.enumerate())
    for _ in range(2):
        with pytest.raises(DefinitionError, match="no"):
            client.start()
    assert set(threading.enumerate()) <= threads


def test_the_end_cancels_what_still_runs_after_its_steps_and_takes_no_more(client: EngineClient) -> None:
    client.start()
    steps: list[str] = []

    # Held here: a task that waits for what nothing holds may be collected before the end.
    never = asyncio.Event()

    async def forever() -> None:
        await never.wait()

    async def step() -> None:
        steps.append("step")
        with pytest.raises(RuntimeClosedError):
            client.begin_call(one(), print)

    ended: list[LoopCall[None]] = []
    client.begin_call(forever(), ended.append)
    client.end_loop(step, client.engine.stop, step)
    assert steps == ["step", "step"]
    with pytest.raises(CancelledError):
        ended[0].result()


def test_the_loop_s_own_thread_is_told_apart(client: EngineClient) -> None:
    client.start()

    async def is_here() -> bool:
        return client.is_current_thread()

    assert client.run(is_here())
    assert not client.is_current_thread()
    client.end_loop(client.engine.stop)
