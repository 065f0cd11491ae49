"""What programs of any world do: they ask for turns until they know how these end. All is noted, for the judge."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from actors import Content
from actors.messages.session import SessionKey
from tests.model.history import Ask
from tests.model.judge import problems
from tests.simulation.agents import TWICE
from tests.simulation.drivers import APP, Driver
from tests.simulation.frame import Left
from tests.simulation.play import found_in
from tests.simulation.world import World


class Wish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn that a user asks for.

    Attributes:
        turn: its id.
        at_s: when.
        again_after_s: seconds until another driver asks for the same turn; 0: none does.
        cancelled_after_s: seconds until it is cancelled; 0: it is not.
    """

    turn: str
    user: str = "ada"
    session: str = "s"
    at_s: float = 0.0
    again_after_s: float = 0.0
    cancelled_after_s: float = 0.0

    @property
    def key(self) -> SessionKey:
        return SessionKey(APP, self.user, self.session)


async def grant(world: World, wish: Wish, message: str = "hi", driver: Driver | None = None, **of: Any) -> Ask:
    """Ask for a turn when its time has come, once more, and cancel it, as is wished. Returns what came of the first request."""
    await asyncio.sleep(wish.at_s)
    async with asyncio.TaskGroup() as others:
        if wish.again_after_s:
            others.create_task(_again(world, wish, message, of))
        if wish.cancelled_after_s:
            others.create_task(_cancel(world, wish))
        return await until_known(world, wish, message, driver, **of)


async def until_known(world: World, wish: Wish, message: str | Content, driver: Driver | None = None, **of: Any) -> Ask:
    """Run a turn until a driver knows how it ended: one that is lost is replaced by another, which asks again.

    Args:
        driver: that asks first.
        of: other fields of the request.
    """
    content = Content.of_text(message) if isinstance(message, str) else message
    while True:
        program = driver or world.driver()
        told = await program.do("run", user=wish.user, session=wish.session, turn=wish.turn, message=content, **of)
        if told.ended:
            return told
        await asyncio.sleep(AGAIN_S)
        driver = None


AGAIN_S = 1.0
"""Virtual seconds until a lost driver is replaced."""


async def _again(world: World, wish: Wish, message: str, of: dict[str, Any]) -> None:
    await asyncio.sleep(wish.again_after_s)
    await until_known(world, wish, message, **of)


async def _cancel(world: World, wish: Wish) -> None:
    await asyncio.sleep(wish.cancelled_after_s)
    await world.driver().do("cancel", user=wish.user, session=wish.session, turn=wish.turn)


def judge(world: World, left: Left) -> None:
    """Note what is left of each session that programs have asked for, and what of the history is impossible."""
    history = world.loop.history
    for user, session in sorted({(ask.user, ask.session) for ask in history.asks if ask.session}):
        history.found[user, session] = found_in(world.disk.store, SessionKey(APP, user, session))
    left.problems += world.promises.broken
    left.problems += [f"call {each} was repeated while it was under way" for each in TWICE]
    left.problems += problems(history)
