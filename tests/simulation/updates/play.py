"""One edition: drivers ask for turns and give the deployment other trees.

No turn is lost, and each runs by one version, which new turns got when it began.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from actors import Content, FunctionResponse, Part
from actors.errors import RequestError
from actors.layers.listing.rules import open_calls
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.versions import VersionRecord
from actors.messages.event import Event, decode_event
from runtime.driver import tree_updates
from tests.model.history import Ask
from tests.simulation.drivers import APP, unless_lost
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.programs import AGAIN_S, grant, judge
from tests.simulation.stores import StoreCalls
from tests.simulation.updates.edition import Asked, Edit, Edition
from tests.simulation.updates.world import ASK, UpdatedWorld, numbered_tree
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import EPOCH_S, SETTINGS, deployment_of

SETTLE_S = 30.0
"""Virtual seconds that are waited for what may still happen."""

_TREE = re.compile(r"tree (\d+)")


class Edited(Left):
    """What an edition has left besides.

    Attributes:
        numbers: of the trees, by the names of their versions.
        records: when each was kept, and from when on all actors know a later one.
        errors: of updates, by class.
    """

    numbers: dict[str, int] = {}
    records: list[tuple[float, float, VersionRecord]] = []
    errors: list[str] = []


def play(given: Edition, seed: int) -> Edited:
    left = Edited()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = UpdatedWorld(loop, deployment_of(numbered_tree(0, given.works_s)), given.plan, calls, seed)
        left.trace = world.trace
        await Editing(world, given, left).run()

    return in_virtual_time(left, seed, meet)


class Editing:
    """Plays an edition in a world."""

    def __init__(self, world: UpdatedWorld, given: Edition, left: Edited) -> None:
        self._world = world
        self._given = given
        self._left = left
        self._told_s: dict[int, float] = {}

    async def run(self) -> None:
        """Play all of it, and look at what is left."""
        world, left = self._world, self._left
        left.numbers[world.first.version.id] = 0
        world.start()
        edits = asyncio.gather(*map(self._edit, self._given.edits))
        ends = await asyncio.gather(*map(self._turn, self._given.wishes))
        await edits
        await asyncio.sleep(SETTLE_S)
        for kept_s, record in world.records.history:
            later = [told_s for number, told_s in self._told_s.items() if number > record.number]
            left.records.append((kept_s, min(later, default=float("inf")), record))
        judge(world, left)
        for wish, ask in zip(self._given.wishes, ends, strict=True):
            left.problems += [f"{wish.turn}: {each}" for each in self._wrong(wish, ask)]

    def _log(self, wish: Asked) -> list[Event]:
        return [decode_event(raw, seq) for seq, raw in self._world.disk.store.events(wish.key)]

    async def _turn(self, wish: Asked) -> Ask:
        """Have a turn run, and answered when it asks. Returns what came of the last request."""
        told = await grant(self._world, wish, ASK if wish.asks else "go")
        if told.ended != "Paused":
            return told
        await asyncio.sleep(wish.answered_s)
        (waiting,) = open_calls(self._log(wish))
        answer = {waiting.call.id: {"yes": True}}
        response = FunctionResponse(id=waiting.call.id, name=waiting.call.name, response={"yes": True})
        message = Content(role="user", parts=[Part(function_response=response)])
        is_sent = False
        while True:
            # A driver that was lost may have sent the answer.
            is_there = is_sent and any(event.author == "user" and event.function_responses() for event in self._log(wish))
            more: dict[str, Any] = {} if is_there else {"message": message, "responses": answer}
            what = "attach" if is_there else "run"
            told = await self._world.driver().do(what, user=wish.user, session=wish.session, turn=wish.turn, **more)
            if told.ended:
                return told
            is_sent = True
            await asyncio.sleep(AGAIN_S)

    async def _edit(self, edit: Edit) -> None:
        await asyncio.sleep(edit.at_s)
        driver = self._world.driver()
        client: Any = SimpleNamespace(app_name=APP, engine=driver.rt._client.engine)
        client.engine.trees = self._world.records
        await unless_lost(driver, self._done(edit, client))

    async def _done(self, edit: Edit, client: Any) -> None:
        before = self._world.records.newest.number
        try:
            if edit.deed == "rollback":
                await tree_updates._roll_back(client)
            else:
                tree = AgentTree(numbered_tree(edit.number, self._given.works_s), (), SETTINGS.limits)
                self._left.numbers[tree.version.id] = edit.number
                record, _ = await tree_updates._current(client)
                before = record.number
                await tree_updates._update(client, record, tree, edit.part)
        except RequestError as error:
            # Another update came first; or there is nothing to go back to.
            self._left.errors.append(type(error).__name__)
            return
        # It has told all actors of a record at least as new as the next one after that which it had read.
        self._told_s[before + 1] = asyncio.get_running_loop().time()

    def _wrong(self, wish: Asked, ask: Ask) -> Iterator[str]:
        """What is wrong with a turn."""
        row, log, numbers = self._world.disk.store.turn(wish.key, wish.turn), self._log(wish), self._left.numbers
        if row is None or ask.ended != "Finished":
            yield f"it ended as {ask.ended} ({ask.error})"
            return
        if row.version not in numbers:
            yield f"it has version {row.version!r}, which is none"
            return
        texts = [event.text for event in log]
        keys = [str(call.args.get("key", "")) for event in log for call in event.function_calls()]
        said = {int(tree) for each in (*texts, *keys) for tree in _TREE.findall(each)}
        if said != {numbers[row.version]}:
            yield f"it has version {row.version}, tree {numbers[row.version]}, and ran by {sorted(said)}"
        # The message has the time at which it was asked; its turn had its version when the agent began.
        begun_s, asked_s = log[1].timestamp - EPOCH_S, log[0].timestamp - EPOCH_S
        given = {
            version
            for kept_s, known_s, record in self._left.records
            if kept_s <= begun_s and known_s >= asked_s
            for version in record.given
        }
        if row.version not in given:
            yield f"it began with tree {numbers[row.version]}, when new turns got {sorted(numbers[each] for each in given)}"
