"""The processes of drivers, with a Runtime in each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actors.errors import RaygroveError
from actors.layers.flows.definitions import FlowPlan
from actors.refs import RunnerRef
from runtime.driver.engine_client import Portal
from runtime.driver.runtime import Runtime
from runtime.engine.interface import Engine
from tests.model.asking import perform
from tests.model.history import Ask
from tests.simulation.virtual_loop import SimProcess

if TYPE_CHECKING:
    from tests.simulation.world import World

APP = "sim"

T = TypeVar("T")


class SimEngine:
    """Implements `Engine` for one driver's process."""

    limiter = None
    lasts = True
    artifact_store = "memory://sim"
    auto_create_session = True
    has_ended = False

    def __init__(self, world: World, process: SimProcess) -> None:
        self._world = world
        self.settings = world.settings
        self.session = world.session_ref(process)
        self.runner = RunnerRef(world.runner_handle(process).link("the Runner"))

    def prepare(self) -> None:
        """Nothing."""

    async def has_successor(self, error: Exception) -> bool:
        return False

    async def rejoin(self) -> None:
        """Nothing: the deployment outlives all of its drivers."""

    async def define(self, name: str, plan: FlowPlan) -> None:
        """Keep a flow's plan."""
        self._world.plans.add(name, plan)


class SimPortal:
    """Stands in for the driver's event loop in a thread: the one loop of the simulation."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process

    def is_current_thread(self) -> bool:
        return True

    def time_s(self) -> float:
        return asyncio.get_running_loop().time()

    def call_soon(self, callback: Any) -> None:
        # What a turn that nobody follows any more asks for after the end of the simulation comes to nobody.
        with suppress(RuntimeError):
            self._process.run(asyncio.get_running_loop().call_soon, callback)

    def submit(self, work: Any) -> Any:
        return self._process.spawn(work)

    async def run_async(self, work: Any) -> Any:
        return await work


class Driver(SimProcess):
    """A driver's process, with a Runtime in it.

    Attributes:
        rt: the Runtime.
        gone: set when the process is lost.
        history: where it notes what it asks for.
    """

    def __init__(self, world: World) -> None:
        super().__init__(f"driver {len(world.drivers) + 1}")
        world.drivers.append(self)
        self.gone = asyncio.Event()
        self.history = world.loop.history
        self.rt = Runtime.__new__(Runtime)
        engine, portal = cast(Engine, SimEngine(world, self)), cast(Portal, SimPortal(self))
        # As `Runtime.connect` does it.
        self.rt._set_up(APP, engine, None, {})
        self.rt._client._portal = portal
        self.rt._program.open()

    async def do(self, what: str, **of: Any) -> Ask:
        """Ask for something, and wait for what comes of it, or until the driver is lost: then the request has no end."""
        ask = self.history.ask(what, program=self.name, **of)
        await unless_lost(self, perform(self.rt, self.history, ask))
        return ask

    async def cancel(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """Cancel a turn, which may be over, or not be there yet."""
        with suppress(RaygroveError):
            await self.rt.attach(user_id=user_id, session_id=session_id, invocation_id=invocation_id).aio.cancel()

    def note_lost(self) -> None:
        self.gone.set()


async def unless_lost(driver: Driver, work: Coroutine[Any, Any, T]) -> T | None:
    """Have a driver do something, and wait for that, or until the driver is lost: None is returned then."""
    doing = driver.spawn(work)
    gone = asyncio.create_task(driver.gone.wait())
    await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    return doing.result() if doing.done() else None
