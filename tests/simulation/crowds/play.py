"""One crowd: its wishes are asked for by drivers, each in a process of its own, and what they are told is kept."""

from __future__ import annotations

import asyncio

import msgspec

from actors.errors import OverloadedError, RaygroveError
from actors.messages.codec import decode_event
from actors.messages.session import SessionKey
from runtime.driver.turns.turn import Turn
from tests.simulation.agents import build, forget_calls
from tests.simulation.cluster import Trace
from tests.simulation.crowds.crowd import Crowd, Wish
from tests.simulation.drivers import APP, Driver
from tests.simulation.scenarios import Node
from tests.simulation.stores import Disk
from tests.simulation.virtual_loop import NO_PROCESS, StuckError, VirtualLoop
from tests.simulation.world import World, deployment_of, seeded

LIMIT_S = 600.0
"""Virtual seconds in which a crowd has to be served."""

SETTLE_S = 30.0
"""Virtual seconds that are waited for things that may still happen."""


class Answer(msgspec.Struct):
    """What one driver was told.

    Attributes:
        ended: the class of the outcome or of the error; "" while nothing has come.
        retry_after_s: of a refusal; else 0.
        events: complete ones that it got.
    """

    wish: Wish
    ended: str = ""
    error: str = ""
    retry_after_s: float = 0.0
    events: int = 0


class Served(msgspec.Struct):
    """What a crowd has left.

    Attributes:
        answers: of all drivers.
        messages: how often each turn's message is in the log; by the turn's id.
        replies: how often it has an answer there.
        waiting: turns that wait in the Runner at the end.
        problems: what may never happen.
    """

    answers: list[Answer] = []
    messages: dict[str, int] = {}
    replies: dict[str, int] = {}
    waiting: int = 0
    problems: list[str] = []
    trace: Trace = msgspec.field(default_factory=Trace)


def key_of(wish: Wish) -> SessionKey:
    """The session of a turn."""
    return SessionKey(APP, wish.user, wish.session)


def serve(given: Crowd, seed: int) -> Served:
    """Serve a crowd."""
    return NO_PROCESS.copy().run(_serve, given, seed)


def _serve(given: Crowd, seed: int) -> Served:
    served, loop = Served(), VirtualLoop()
    forget_calls()
    root = Node(kind="llm", name="root", thinks_s=given.thinks_s)
    with seeded(loop, seed) as calls:
        opens = (given.at_once, given.of_many)
        world = World(loop, deployment_of(build(root)), given.plan, calls, seed, limits=given.limits, opens=opens)
        try:
            loop.run_until_complete(_meet(world, given, served))
        except StuckError as error:
            served.problems.append(f"hang: {error}")
        finally:
            served.trace = world.trace
            loop.forget()
            Disk(loop).clear(*{key_of(wish) for wish in given.wishes}, LAST)
    return served


LAST = SessionKey(APP, "last", "s")


async def _meet(world: World, given: Crowd, served: Served) -> None:
    world.start()
    asked = [asyncio.create_task(_ask(world, wish, served)) for wish in given.wishes]
    asked += [
        asyncio.create_task(_ask(world, msgspec.structs.replace(wish, at_s=wish.at_s + wish.again_after_s), served))
        for wish in given.wishes
        if wish.again_after_s
    ]
    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*asked)
            await asyncio.sleep(SETTLE_S)
            last = Answer(Wish(user=LAST.user, session=LAST.session, number=0, at_s=0.0))
            await _tell(world, last)
            if last.ended != "Finished":
                served.problems.append(f"a turn after the crowd ends with {last.ended}: {last.error}")
            served.waiting = (await Driver(world).rt._client.engine.runner.statistics()).counts["waiting"]
    except TimeoutError:
        served.problems.append(f"hang: not over after {LIMIT_S:g} s")
    for wish in given.wishes:
        log = [decode_event(raw, seq) for seq, raw in world.disk.store.events(key_of(wish))]
        mine = [event for event in log if event.invocation_id == wish.invocation_id]
        served.messages[wish.invocation_id] = sum(event.author == "user" for event in mine)
        served.replies[wish.invocation_id] = sum(event.author != "user" for event in mine)


async def _ask(world: World, wish: Wish, served: Served) -> None:
    await asyncio.sleep(wish.at_s)
    answer = Answer(wish)
    served.answers.append(answer)
    telling = asyncio.create_task(_tell(world, answer))
    if wish.cancelled_after_s:
        await asyncio.sleep(wish.cancelled_after_s)
        driver = Driver(world)
        await driver.spawn(driver.cancel(wish.user, wish.session, wish.invocation_id))
    await telling


async def _tell(world: World, answer: Answer) -> None:
    wish, driver = answer.wish, Driver(world)
    turn = driver.run(
        lambda: driver.rt.run(user_id=wish.user, session_id=wish.session, message="hi", invocation_id=wish.invocation_id)
    )
    await driver.spawn(_read(turn, answer))


async def _read(turn: Turn, answer: Answer) -> None:
    try:
        async for event in turn:
            answer.events += not event.partial
        answer.ended = type((await turn).outcome).__name__
    except OverloadedError as error:
        answer.ended, answer.error, answer.retry_after_s = type(error).__name__, str(error), error.retry_after_s
    except RaygroveError as error:
        answer.ended, answer.error = type(error).__name__, str(error)
