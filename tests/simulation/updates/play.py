"""One edition: drivers ask for turns and give the deployment other trees, and what they leave in the log is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec

from actors import Content, FunctionResponse, Part
from actors.definitions.tree import AgentTree
from actors.errors import RaygroveError, RequestError
from actors.messages.codec import decode_event
from actors.messages.event import Event
from actors.messages.operating.versions import VersionRecord
from actors.messages.session import SessionKey
from actors.rules.routing.pending import open_calls
from runtime.driver.updates import methods
from tests.simulation.agents import forget_calls
from tests.simulation.drivers import APP, Driver
from tests.simulation.stores import clear_used
from tests.simulation.updates.edition import Edit, Edition, Wish
from tests.simulation.updates.world import ASK, UpdatedWorld, numbered_tree
from tests.simulation.virtual_loop import NO_PROCESS, StuckError, VirtualLoop
from tests.simulation.world import SETTINGS, deployment_of, seeded

LIMIT_S, SETTLE_S, AGAIN_S = 600.0, 30.0, 1.0
"""Virtual seconds: an edition has to be over then; what may still happen is waited for; until something is asked again."""

USER = "ada"


class Played(msgspec.Struct):
    """A turn, and what became of it.

    Attributes:
        asked_s: when it was asked for first.
        ended: the class of its outcome or of its error; "" while none is known.
        status, version: as the store has them.
        log: its events.
    """

    wish: Wish
    asked_s: float = 0.0
    ended: str = ""
    error: str = ""
    status: str = ""
    version: str = ""
    log: list[Event] = []


class Left(msgspec.Struct):
    """What an edition has left.

    Attributes:
        numbers: of the trees, by the names of their versions.
        records: when each was kept, and from when on all actors know a later one.
        errors: of updates, by class.
    """

    played: list[Played] = []
    numbers: dict[str, int] = {}
    records: list[tuple[float, float, VersionRecord]] = []
    errors: list[str] = []
    problems: list[str] = []


def play(given: Edition, seed: int) -> Left:
    """Play an edition."""
    return NO_PROCESS.copy().run(_play, given, seed)


def _play(given: Edition, seed: int) -> Left:
    left, loop = Left(), VirtualLoop()
    forget_calls()
    with seeded(loop, seed) as calls:
        world = UpdatedWorld(loop, deployment_of(numbered_tree(0, given.works_s)), given.plan, calls, seed)
        try:
            loop.run_until_complete(Editing(world, given, left).run())
        except StuckError as error:
            left.problems.append(f"hang: {error}")
        finally:
            loop.forget()
            clear_used()
    return left


def key_of(wish: Wish) -> SessionKey:
    """The session of a turn."""
    return SessionKey(APP, USER, wish.session)


class Editing:
    """Plays an edition in a world."""

    def __init__(self, world: UpdatedWorld, given: Edition, left: Left) -> None:
        self._world = world
        self._given = given
        self._left = left
        self._told_s: dict[int, float] = {}

    async def run(self) -> None:
        """Play all of it, and look at what is left."""
        world, left = self._world, self._left
        left.numbers[world.first.version.id] = 0
        world.start()
        left.played = [Played(wish) for wish in self._given.wishes]
        doing: list[Coroutine[Any, Any, None]] = [self._turn(played) for played in left.played]
        doing += [self._edit(edit) for edit in self._given.edits]
        try:
            async with asyncio.timeout(LIMIT_S):
                await asyncio.gather(*doing)
                await asyncio.sleep(SETTLE_S)
        except TimeoutError:
            left.problems.append(f"hang: not over after {LIMIT_S:g} s")
        for played in left.played:
            row = world.disk.store.turn(key_of(played.wish), played.wish.invocation_id)
            played.status, played.version = (row.status, row.version) if row is not None else ("unknown", "")
            played.log = self._log(played.wish)
        for kept_s, record in world.records.history:
            later = [told_s for number, told_s in self._told_s.items() if number > record.number]
            left.records.append((kept_s, min(later, default=float("inf")), record))

    def _log(self, wish: Wish) -> list[Event]:
        return [decode_event(raw, seq) for seq, raw in self._world.disk.store.events(key_of(wish))]

    async def _turn(self, played: Played) -> None:
        wish = played.wish
        await asyncio.sleep(wish.at_s)
        played.asked_s = asyncio.get_running_loop().time()
        message = ASK if wish.asks else "go"
        await self._asked(played, message=message, invocation_id=wish.invocation_id)
        if played.ended != "Paused":
            return
        await asyncio.sleep(wish.answered_s)
        (waiting,) = open_calls(self._log(wish))
        response = FunctionResponse(id=waiting.call.id, name=waiting.call.name, response={"yes": True})
        answer = Content(role="user", parts=[Part(function_response=response)])
        await self._asked(played, message=answer)

    async def _asked(self, played: Played, **asked: Any) -> None:
        """Ask until a driver knows how the turn ended."""
        played.ended, is_again = "", False
        while not played.ended:
            driver = Driver(self._world)
            reading = driver.spawn(self._read(driver, played, asked, is_again=is_again))
            gone = asyncio.create_task(driver.gone.wait())
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if reading.done():
                reading.result()
            else:
                await asyncio.sleep(AGAIN_S)
            is_again = True

    async def _read(self, driver: Driver, played: Played, asked: dict[str, Any], *, is_again: bool) -> None:
        key, invocation_id = key_of(played.wish), played.wish.invocation_id
        answers = any(event.author == "user" and event.function_responses() for event in self._log(played.wish))
        if is_again and "invocation_id" not in asked and answers:
            turn = driver.rt.attach(user_id=USER, session_id=key.session, invocation_id=invocation_id)
        else:
            turn = driver.rt.run(user_id=USER, session_id=key.session, **asked)
        try:
            result = await turn
            played.ended = type(result.outcome).__name__
        except RaygroveError as error:
            played.ended, played.error = type(error).__name__, str(error)

    async def _edit(self, edit: Edit) -> None:
        await asyncio.sleep(edit.at_s)
        driver = Driver(self._world)
        client: Any = SimpleNamespace(app_name=APP, engine=driver.rt._client.engine)
        client.engine.trees = self._world.records
        editing = driver.spawn(self._done(edit, client))
        gone = asyncio.create_task(driver.gone.wait())
        await asyncio.wait({editing, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if editing.done():
            editing.result()

    async def _done(self, edit: Edit, client: Any) -> None:
        before = self._world.records.newest.number
        try:
            if edit.deed == "rollback":
                await methods._roll_back(client)
            else:
                tree = AgentTree(numbered_tree(edit.number, self._given.works_s), (), SETTINGS.limits)
                self._left.numbers[tree.version.id] = edit.number
                record, _ = await methods._current(client)
                before = record.number
                await methods._update(client, record, tree, edit.part)
        except RequestError as error:
            # Another update came first; or there is nothing to go back to.
            self._left.errors.append(type(error).__name__)
            return
        # It has told all actors of a record at least as new as the next one after that which it had read.
        self._told_s[before + 1] = asyncio.get_running_loop().time()
