"""The driver's client of its engine: every request to the deployment runs on one event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from actors.errors import RaygroveError, RuntimeClosedError
from actors.interfaces.stores import ArtifactStore
from actors.refs import SessionRef
from runtime.driver.event_loop import HomeProcess, LoopCall, Portal, Work
from runtime.engine.interface import Engine
from runtime.engine.process.collector import RARE_COLLECTION, existing_left_out
from runtime.engine.store_urls import open_artifact_store
from runtime.stores.safe_artifacts import SafeArtifactStore

T = TypeVar("T")


class EngineClient:
    """Starts and ends an engine, and runs coroutines on the engine's event loop in between.

    Its methods may be called from any thread. All that need the loop raise RuntimeClosedError when the engine is not started, or
    is being ended, and ForkedProcessError in a fork of the process that has started it.
    """

    def __init__(self, app_name: str, engine: Engine) -> None:
        self.app_name = app_name
        self.engine = engine
        self._portal: Portal | None = None
        self._home = HomeProcess.here
        self._was_started = False
        self._artifacts: tuple[str | ArtifactStore, SafeArtifactStore] | None = None

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor."""
        return self.engine.session

    @property
    def is_forked(self) -> bool:
        """True in a fork of the process that has started the engine."""
        return self._portal is not None and not self._home.is_here()

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return self._portal is not None and not self.is_forked

    def check_process(self) -> None:
        """Raise ForkedProcessError in a fork of the process that has started the engine."""
        if self._portal is not None:
            self._home.check(self.app_name)

    @property
    def artifacts(self) -> SafeArtifactStore:
        """The store of artifacts. Raises RuntimeClosedError in a fork, and until the deployment that knows it is joined."""
        self.check_process()
        named = self.engine.artifact_store
        if named is None:
            raise self.not_open()
        # Another deployment may have been joined since, with another store.
        if self._artifacts is None or self._artifacts[0] != named:
            self._artifacts = named, open_artifact_store(named)
        return self._artifacts[1]

    def start(self) -> None:
        """Start the engine. Raises RaygroveError when it is started already, and what Engine.start raises."""
        self.check_process()
        if self._portal is not None:
            raise RaygroveError(f"the runtime of app {self.app_name!r} is started already")
        self._home = HomeProcess.here
        self.engine.prepare()
        clock = self.engine.loop_clock
        portal = Portal(self.app_name, clock.new_event_loop() if clock is not None else None)
        try:
            with existing_left_out():
                portal.run(self.engine.start())
        except BaseException:
            portal.close()
            self.engine.release()
            raise
        RARE_COLLECTION.begin()
        self._portal = portal
        self._was_started = True

    def not_open(self) -> RuntimeClosedError:
        """Why it cannot be used while it does not run: it was never started, or it is closed."""
        return RuntimeClosedError(self.app_name, "is closed" if self._was_started else "was not started")

    def end_loop(self, *steps: Callable[[], Work[None]]) -> None:
        """Refuse further requests, run these steps on the loop, one after the other, and end the loop."""
        portal = self._open_portal()
        self._portal = None
        try:
            for step in steps:
                portal.run(step())
        finally:
            portal.close()
            self.engine.release()
            RARE_COLLECTION.end()

    def run(self, work: Work[T]) -> T:
        """Run a coroutine on the loop and wait for its result. Raises what it raises."""
        return self._open_portal(work).run(self._joined(work))

    async def run_async(self, work: Work[T]) -> T:
        """Run a coroutine on the loop, for a caller on another event loop. Raises what it raises."""
        return await self._open_portal(work).run_async(self._joined(work))

    def begin_call(self, work: Work[T], ended: Callable[[LoopCall[T]], object]) -> LoopCall[T]:
        """Start a coroutine on the loop, which calls `ended` with it at its end."""
        return self._open_portal(work).begin_call(self._joined(work), ended)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call a function, without waiting for it."""
        self._open_portal().call_soon(callback)

    def loop_time_s(self) -> float:
        """The time of the loop's clock, also for other threads. Raises RuntimeClosedError."""
        return self._open_portal().time_s()

    def is_current_thread(self) -> bool:
        """True on the loop's own thread, which must not wait for the loop."""
        return self._portal is not None and self._home.is_here() and self._portal.is_current_thread()

    def _joined(self, work: Work[T]) -> Work[T]:
        return self._after_rejoining(work) if self.engine.has_ended else work

    async def _after_rejoining(self, work: Work[T]) -> T:
        try:
            await self.engine.rejoin()
        except BaseException:
            # Python warns of coroutines that are never run.
            work.close()
            raise
        return await work

    def _open_portal(self, work: Work[object] | None = None) -> Portal:
        portal = self._portal
        if portal is not None and self._home.is_here():
            return portal
        if work is not None:
            # Python warns of coroutines that are never run.
            work.close()
        self.check_process()
        raise self.not_open()
