"""One crowd: its turns run side by side, and what they leave is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import msgspec

from actors import AgentTool, Content, FunctionCall, FunctionTool, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext
from actors.errors import RaygroveError
from actors.messages.codec import decode_event
from actors.messages.session import SessionKey
from tests.simulation.cluster import HostProcess
from tests.simulation.drivers import APP, Driver
from tests.simulation.play import NO_FAULTS
from tests.simulation.poison.crowd import Asked, Crowd
from tests.simulation.stores import Disk
from tests.simulation.virtual_loop import NO_PROCESS, PROCESS, StuckError, VirtualLoop, outside
from tests.simulation.world import World, deployment_of, seeded

LIMIT_S = 200.0
"""Virtual seconds in which a crowd has to be over."""

ENDLESS = 60
"""A turn that has run so often is not waited for any longer."""


class Left(msgspec.Struct):
    """What a crowd has left.

    Attributes:
        ended: how each turn has ended, in their order: the name of the outcome's class, or of the error.
        runs: how often the tool or the callback of each turn ran, by the index of the turn.
        again: calls that ran once more though their result was stored.
        endless: set when a turn has run too often.
        problems: what may never happen.
    """

    ended: dict[int, str] = {}
    runs: Counter[int] = msgspec.field(default_factory=Counter)
    again: list[str] = []
    problems: list[str] = []
    endless: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def note_run(self, number: int) -> None:
        """The tool or the callback of a turn begins."""
        self.runs[number] += 1
        if self.runs[number] == ENDLESS:
            self.problems.append(f"turn {number} is repeated without end")
            self.endless.set()


WORLDS: list[tuple[World, Crowd, Left]] = []
"""The one that runs now: tools and callbacks find it here."""


def key_of(number: int) -> SessionKey:
    """The session of a turn."""
    return SessionKey(APP, f"u{number}", "s")


def play(given: Crowd, seed: int) -> Left:
    """Play a crowd."""
    return NO_PROCESS.copy().run(_play, given, seed)


def _play(given: Crowd, seed: int) -> Left:
    left, loop = Left(), VirtualLoop()
    with seeded(loop, seed) as calls:
        world = World(loop, deployment_of(_tree()), NO_FAULTS, calls, seed, given.groups)
        WORLDS.append((world, given, left))
        try:
            loop.run_until_complete(_meet(world, given, left))
        except StuckError as error:
            left.problems.append(f"hang: {error}")
        finally:
            WORLDS.clear()
            loop.forget()
            Disk(loop).clear(*map(key_of, range(len(given.turns))))
    return left


async def _meet(world: World, given: Crowd, left: Left) -> None:
    world.start()
    turns = [_turn(world, number, asked, left) for number, asked in enumerate(given.turns)]
    whole = asyncio.gather(*turns, *(_lose(world, after_s, who) for after_s, who in given.lost))
    endless = asyncio.ensure_future(left.endless.wait())
    both: set[asyncio.Future[Any]] = {whole, endless}
    await asyncio.wait(both, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    endless.cancel()
    if not whole.done():
        whole.cancel()
        left.problems.append(f"turns {set(range(len(given.turns))) - set(left.ended)} are not over")


async def _turn(world: World, number: int, asked: Asked, left: Left) -> None:
    await asyncio.sleep(asked.at_s)
    driver = Driver(world)

    async def run() -> str:
        try:
            key = key_of(number)
            return type((await driver.rt.run(user_id=key.user, session_id=key.session, message=str(number))).outcome).__name__
        except RaygroveError as error:
            return type(error).__name__

    left.ended[number] = await driver.spawn(run())


async def _lose(world: World, after_s: float, who: str) -> None:
    await asyncio.sleep(after_s)
    _kill(world, who)


def _kill(world: World, who: str) -> None:
    if who == "runner" and world.runner is not None:
        world.kill(world.runner, 0.1)
    elif who == "session" and world.session is not None:
        world.kill(world.session, 0.1)
    elif who == "agents" and world.directory is not None:
        for process in world.directory.processes():
            world.kill(process)


async def _crash(asked: Asked) -> None:
    """End the process in which this runs, and those that it takes along."""
    await asyncio.sleep(asked.takes_s)
    world, _, _ = WORLDS[0]
    here = cast(HostProcess, PROCESS.get())

    def end() -> None:
        world.kill(here)
        for who in asked.takes:
            _kill(world, who)

    outside(world.loop.call_later, 0.0, end)
    await asyncio.sleep(LIMIT_S)


def _asked(contents: Any) -> int:
    """The number of the turn whose message stands first."""
    return int(contents[0].parts[0].text.split()[-1])


async def work(number: int, tool_context: ToolContext) -> str:
    """Work, or end the process."""
    world, given, left = WORLDS[0]
    asked, call_id = given.turns[number], tool_context.function_call_id
    left.note_run(number)
    events = [decode_event(raw, seq) for seq, raw in world.disk.store.events(key_of(number))]
    if any(response.id == call_id for event in events for response in event.function_responses()):
        left.again.append(call_id)
    if asked.is_poisoned:
        await _crash(asked)
    await asyncio.sleep(asked.takes_s)
    return f"{number} is done"


async def before_model(callback_context: Any, llm_request: LlmRequest) -> None:
    """End the process where the turn asks for that."""
    _, given, left = WORLDS[0]
    number = _asked(llm_request.contents)
    if given.turns[number].does == "crash in callback":
        left.note_run(number)
        await _crash(given.turns[number])


class CrowdModel:
    """Does what a turn is asked to do, and then says that it is done."""

    def __init__(self, *, is_expert: bool = False) -> None:
        self._is_expert = is_expert

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """The next step."""
        number = _asked(request.contents)
        asked = WORLDS[0][1].turns[number]
        part = Part(text="done")
        if request.contents[-1].role != "user" or not any(request.contents[-1].function_responses()):
            match asked.does:
                case "think":
                    await asyncio.sleep(asked.takes_s)
                case "crash in expert" if not self._is_expert:
                    part = _call("expert", {"request": f"do {number}"})
                case "work" | "crash" | "crash in expert":
                    part = _call("work", {"number": number})
        often = asked.often if part.function_call is not None and part.function_call.name == "work" else 1
        yield LlmResponse(content=Content(role="model", parts=[part] * often))


def _call(name: str, args: Mapping[str, Any]) -> Part:
    return Part(function_call=FunctionCall(name=name, args=dict(args)))


def _tree() -> LlmAgent:
    tool = FunctionTool(work)
    expert = LlmAgent(name="expert", description="Knows.", model=CrowdModel(is_expert=True), tools=[tool])
    return LlmAgent(name="root", model=CrowdModel(), tools=[tool, AgentTool(expert)], before_model_callback=before_model)
