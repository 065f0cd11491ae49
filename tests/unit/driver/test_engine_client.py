"""The one way onto the driver's event loop: open between start and end, and refused at all other times.

What is asked for in the moment in which a Runtime is closed.

A Runtime that a program hands to another process, and cannot be used there.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import DefinitionError, RaygroveError, RuntimeClosedError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.engine_client import EngineClient, LoopCall, Portal
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


def test_a_turn_that_is_cancelled_before_its_first_step_fails(tmp_path: Path) -> None:
    agent = LlmAgent(name="root", model=PatternModel([], default="hello"))
    runtime = Runtime(
        agent,
        app_name="closing",
        engine="local",
        session_store=f"sqlite:///{tmp_path}/s.db",
        artifact_store=f"file://{tmp_path}/a",
    )
    with runtime as rt:
        is_free = threading.Event()
        # Both come to the loop in the same pass, as where one thread closes a Runtime that another one uses.
        rt._client.call_soon(is_free.wait)
        turn = rt.run(user_id="ada", session_id="s", message="hi")
        rt._client.call_soon(rt._program.client()._work.cancel_all)
        is_free.set()
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            turn.result()


async def nothing() -> None:
    pass


def test_what_comes_to_a_loop_in_its_last_pass_is_cancelled() -> None:
    loop = asyncio.SelectorEventLoop()
    portal = Portal("closing", loop)
    is_held, is_free = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        is_free.wait()

    portal.call_soon(hold)
    is_held.wait()
    portal.call_soon(loop.stop)
    ends: list[type[BaseException]] = []

    def ask(work: Callable[[], object]) -> None:
        # Who looks at the loop only now is told that it has ended.
        with pytest.raises((CancelledError, asyncio.CancelledError, RuntimeClosedError)) as error:
            work()
        ends.append(error.type)

    ways = [lambda: portal.run(asyncio.sleep(60)), lambda: asyncio.run(portal.run_async(asyncio.sleep(60)))]
    threads = [threading.Thread(target=ask, args=(way,), daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    while len(loop._ready) < 1 + len(ways):  # type: ignore[attr-defined]
        time.sleep(0.01)
    is_free.set()
    for thread in threads:
        thread.join(timeout=10)
    assert len(ends) == len(ways)
    portal._thread.join()
    loop.close()


def test_a_loop_that_has_ended_takes_nothing() -> None:
    portal = Portal("closing")
    portal.call_soon(portal._loop.stop)
    portal._thread.join()
    for _ in ("ended", "closed"):
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            portal.run(nothing())
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            asyncio.run(portal.run_async(nothing()))
        portal._loop.close()


def test_a_runtime_of_the_local_engine_says_that_no_other_process_can_use_it(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([]))
    rt = Runtime(root, app_name="here", engine="local", session_store=f"sqlite:///{tmp_path}/sessions.db")
    with pytest.raises(RuntimeClosedError, match="'here' was not started"):
        pickle.dumps(rt)
    with rt, pytest.raises(DefinitionError, match="'here' is on the local engine, in this process"):
        pickle.dumps(rt)
    with pytest.raises(RuntimeClosedError, match="'here' is closed"):
        pickle.dumps(rt)
