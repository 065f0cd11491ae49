"""One simulation of moves, and what does not hold."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from types import SimpleNamespace
from unittest import mock

from actors.errors import RaygroveError
from actors.layers.stores.records import SetDueTime
from runtime.engine import users
from runtime.engine.users import move_user
from tests.simulation.cluster import Sent
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.moves.plan import PATIENCE_S, Plan
from tests.simulation.moves.users import APP, User
from tests.simulation.moves.world import Mover, MovesWorld, user_in
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import SimProcess, VirtualLoop

LIMIT_S = 20_000.0
"""Virtual seconds in which a simulation has to be over."""

SETTLE_S = 300.0
"""Virtual seconds until whatever was stopped or late has come."""

PAUSE_S = 1.0
"""How long programs wait before they ask again for a user who is not free: each question is a message."""

CHANGED = "is not what was read"
"""In the error of a move in the midst of which the user's data have changed: only where something else has changed them."""


class Moved(Left):
    """What a simulation has left besides.

    Attributes:
        tried, moved: how many moves began, and were made.
        errors: of moves.
        fired: what has gone wrong, and how often.
        talked: how many things the users have done.
    """

    tried: int = 0
    moved: int = 0
    errors: list[str] = []
    fired: dict[str, int] = {}
    talked: int = 0


def play(given: Plan, seed: int) -> Moved:
    left, chance = Moved(), random.Random(f"tokens {seed}")
    tokens = SimpleNamespace(token_hex=lambda size: chance.randbytes(size).hex())

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = MovesWorld(loop, given, calls, seed)
        left.trace, left.fired = world.trace, world.fired
        await _meet(world, given, left, seed)

    with mock.patch.multiple(users, PAUSE_S=PAUSE_S, secrets=tokens):
        return in_virtual_time(left, seed, meet, LIMIT_S)


async def _meet(world: MovesWorld, given: Plan, left: Moved, seed: int) -> None:
    world.start()
    users = []
    for number in range(given.users):
        process = SimProcess(f"user {number}")
        users.append((process, User(f"user {number}", world.ref(process), random.Random(f"user {number} {seed}"))))
    spoiler = _Spoiler(world, {user.name: user for _, user in users})
    world.spoils = spoiler.spoil
    doing = [process.spawn(user.talk(given.talks)) for process, user in users]
    programs = [_programs(world, given, left, random.Random(f"mover {number} {seed}"), number) for number in range(given.movers)]
    await asyncio.gather(*doing, *programs)
    world.is_calm = True
    for disk in world.disks:
        disk.unsure_until_s = 0.0
    await asyncio.sleep(SETTLE_S)
    for process, user in users:
        left.problems += user.problems
        left.problems += await process.spawn(_wrong(world, user, given.stores))
        left.talked += len(user.known.sessions) + len(user.known.schedules) + len(user.known.gone)
    if not given.fault:
        # A program waits for others, and gives up; nothing else can happen to its move.
        left.problems += [error for error in left.errors if not error.startswith("RequestError")]
        left.problems += [error for _, user in users for error in user.errors]
    # What a store has done and says that it has not may be done once more.
    changed = [error for error in left.errors if CHANGED in error and not given.is_unsure]
    if len(changed) > spoiler.spoiled:
        left.problems.append(f"data of a user who was held have changed: {changed[0]}")


async def _programs(world: MovesWorld, given: Plan, left: Moved, chance: random.Random, number: int) -> None:
    """A program that moves users, and the one that is started after it was lost."""
    for life in count(1):
        process = Mover(f"mover {number}#{life}")
        moving_users = process.spawn(_move(world, given, left, chance, process))
        gone = asyncio.ensure_future(process.gone.wait())
        await asyncio.wait([moving_users, gone], return_when=asyncio.FIRST_COMPLETED)
        if moving_users.done():
            gone.cancel()
            moving_users.result()
            return


async def _move(world: MovesWorld, given: Plan, left: Moved, chance: random.Random, process: Mover) -> None:
    ref = world.ref(process)
    while left.tried < given.moves:
        left.tried += 1
        user, to = f"user {chance.randrange(given.users)}", chance.randrange(given.stores)
        try:
            moved = await move_user(ref, APP, user, to, chance.choice(PATIENCE_S))
            left.moved += moved.before != moved.now
        except RaygroveError as error:
            left.errors.append(f"{type(error).__name__}: {error}")
        await asyncio.sleep(chance.uniform(0, 3))


class _Spoiler:
    """Has a store change or lose something in the midst of a move, past its Session actor. `spoiled`: how often."""

    def __init__(self, world: MovesWorld, users: dict[str, User]) -> None:
        self._world = world
        self._users = users
        self.spoiled = 0

    def spoil(self, sent: Sent, store: int) -> None:
        user = self._users[user_in(sent)] if sent.kind in ("LeaveStore", "GetArrivalDigest") else None
        if user is None:
            return
        if sent.kind == "GetArrivalDigest":
            if self._world.lose_part(user.name, store):
                self.spoiled += 1
                self._world.note("a part is lost")
            return
        disk = self._world.disks[store].store
        for row in disk.schedules(APP, user.name):
            if row.name in user.known.schedules and row.name not in user.known.unsure and not row.paused:
                disk._claim = None
                disk.commit([SetDueTime(row.key, row.name, row.id, None, paused=True)])
                user.known.schedules[row.name] = True
                self.spoiled += 1
                self._world.note("a row is changed in place")
                return


async def _wrong(world: MovesWorld, user: User, stores: int) -> list[str]:
    """What is wrong with what a user finds."""
    known, name = user.known, user.name
    events, schedules = await user.found()
    wrong = []
    for session, ids in known.sessions.items():
        found = events.get(session)
        if found is None and session in known.unsure:
            # Its deletion has failed, and was done.
            continue
        if found is None:
            wrong.append(f"{name}: session {session} is gone")
        elif [each for each in found if each in ids] != ids or (session not in known.unsure and found != ids):
            wrong.append(f"{name}: session {session} has {found}, and {ids} were acknowledged")
    paused = {row.name: row.paused for row in schedules}
    for schedule, is_paused in known.schedules.items():
        if schedule not in known.unsure and paused.get(schedule) is not is_paused:
            wrong.append(f"{name}: schedule {schedule}: paused {paused.get(schedule)}, and {is_paused} was acknowledged")
    wrong += [f"{name}: {each} is there, and was deleted" for each in known.gone & (events.keys() | paused.keys())]
    there = [number for number in range(stores) if world.disks[number].store.user_rows(APP, name, b"")[1]]
    if len(there) > 1:
        wrong.append(f"{name} is in the stores {there}")
    return wrong
