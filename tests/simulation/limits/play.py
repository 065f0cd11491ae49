"""One traffic: drivers ask for turns and change limits, and what models and the actor that limits them see is noted."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from actors import BaseAgent, Content, FunctionCall, LlmAgent, LlmRequest, LlmResponse, ParallelAgent, Part
from actors.errors import ModelServiceError
from actors.messages.event import Usage
from tests.model.history import Ask
from tests.simulation.agents import WORK
from tests.simulation.drivers import unless_lost
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.limits.traffic import Asker, Call, Change, Traffic
from tests.simulation.limits.world import LimitedWorld, now_s
from tests.simulation.programs import Wish, grant, judge
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import PROCESS, VirtualLoop
from tests.simulation.world import deployment_of

LIMIT_S, SETTLE_S, SAMPLE_S = 7_200.0, 40.0, 1.0
"""Virtual seconds: a traffic has to be over then; what may still happen is waited for; between two looks at the permits."""

ORPHAN_S = 30.0
"""How long a permit may be held that no process knows of: its lease, until that is looked at, and messages on their way."""


class Made(msgspec.Struct):
    """An attempt of a call, as the model's service sees it.

    Attributes:
        takes_s: it takes so long, also when its caller is lost.
        has_permit: its process has a permit for it, and one for each other call of the model that it has under way.
    """

    model: str
    process: str
    turn: str
    begun_s: float
    takes_s: float
    tokens: int
    ended_s: float = float("inf")
    failed: bool = False
    has_permit: bool = True


class Limited(Left):
    """What a traffic has left besides.

    Attributes:
        made: attempts of calls.
        asked: the turns, with what came of them.
        changed: the changes of limits, with what came of them.
        listed: the limits at the end, by name, as a driver was told.
    """

    made: list[Made] = []
    asked: list[tuple[Wish, Ask]] = []
    changed: list[tuple[Change, Ask]] = []
    listed: dict[str, dict[str, Any]] = {}
    world: Any = None


MADE: list[Made] = []
"""The attempts of calls in the simulation that runs now."""

WORLDS: list[LimitedWorld] = []
"""The world of it."""

FAILED: Counter[tuple[str, str, int]] = Counter()
"""How often calls have failed in it."""


class SharedModel:
    """A model that has limits, and is shared by agents: an agent's calls follow one another in a turn."""

    def __init__(self, asker: Asker) -> None:
        self.name = asker.model
        self._asker = asker

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the next step, or fail."""
        texts = (part.text or "" for content in request.contents for part in content.parts)
        turn = next(text for text in texts if text.count("/") == 2)
        spoken = sum(content.role == "model" for content in request.contents if _is_call(content))
        call = self._asker.calls[min(spoken, len(self._asker.calls) - 1)]
        process = PROCESS.get()
        assert process is not None
        made = Made(self.name, process.name, turn, now_s(), call.takes_s, call.tokens)
        MADE.append(made)
        made.has_permit = _is_within_permits(made)
        try:
            if call.takes_s:
                await asyncio.sleep(call.takes_s)
            yield self._answer(call, spoken, made)
        finally:
            made.ended_s = now_s()

    def _answer(self, call: Call, spoken: int, made: Made) -> LlmResponse:
        key = (made.turn, self._asker.name, spoken)
        if FAILED[key] < call.fails:
            FAILED[key] += 1
            made.failed = True
            raise ModelServiceError(self.name, 503, "busy")
        part = Part(text=f"{self._asker.name} is done")
        if spoken < len(self._asker.calls) - 1:
            part = Part(function_call=FunctionCall(name="work", args={"key": f"{self._asker.name}_{spoken}", "s": 0.0}))
        return LlmResponse(
            content=Content(role="model", parts=[part]),
            usage=Usage(candidates_token_count=call.tokens, total_token_count=call.tokens),
        )


def _is_within_permits(made: Made) -> bool:
    """True if the process of an attempt that begins has as many permits as calls."""
    [client] = (client for process, client in WORLDS[0].clients if process.name == made.process)
    under_way = sum((each.process, each.model, each.ended_s) == (made.process, made.model, float("inf")) for each in MADE)
    return under_way <= sum(model == made.model for model in client._permits.values())


def _is_call(content: Content) -> bool:
    return any(part.function_call is not None for part in content.parts)


def tree_of(given: Traffic) -> BaseAgent:
    """The agents of a traffic, side by side."""
    agents = [LlmAgent(name=asker.name, model=SharedModel(asker), tools=[WORK]) for asker in given.askers]
    return ParallelAgent(name="all", sub_agents=agents)


def play(given: Traffic, seed: int) -> Limited:
    left = Limited()
    MADE.clear()
    FAILED.clear()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = left.world = LimitedWorld(loop, deployment_of(tree_of(given)), given, given.plan, calls, seed)
        WORLDS[:] = [world]
        left.trace = world.trace
        await Playing(world, given, left).run()
        left.made = [*MADE]

    return in_virtual_time(left, seed, meet, LIMIT_S)


class Playing:
    """Plays a traffic in a world."""

    def __init__(self, world: LimitedWorld, given: Traffic, left: Limited) -> None:
        self._world = world
        self._given = given
        self._left = left
        self._orphans_s: dict[str, float] = {}
        self._is_over = False

    async def run(self) -> None:
        """Play all of it, and look at what is left."""
        world, left = self._world, self._left
        world.start()
        looking = asyncio.create_task(self._look_at_permits())
        by_program: dict[str, list[Change]] = defaultdict(list)
        for change in self._given.changes:
            by_program[change.program].append(change)
        programs = asyncio.gather(*map(self._program, by_program.values()))
        asks = await asyncio.gather(*(grant(world, wish, wish.turn) for wish in self._given.wishes))
        left.asked = list(zip(self._given.wishes, asks, strict=True))
        await programs
        await asyncio.sleep(SETTLE_S)
        looking.cancel()
        judge(world, left)
        driver = world.driver()
        for each in await driver.spawn(driver.rt.aio.limits.list()):
            fields = msgspec.structs.asdict(each)
            if each.running or each.waiting:
                left.problems.append(f"{each.running} calls run and {each.waiting} wait of {each.name} when all is over")
            left.listed[each.name] = {name: fields[name] for name in fields if name not in ("running", "waiting")}

    async def _program(self, changes: Sequence[Change]) -> None:
        """A program makes its changes one after the other; another one goes on with the rest where it is lost."""
        began_s = now_s()
        driver = self._world.driver()
        for change in changes:
            await asyncio.sleep(max(0.0, began_s + change.at_s - now_s()))
            if driver.is_dead:
                driver = self._world.driver()
            ask = driver.history.ask("limits", program=driver.name, how=change.name)
            self._left.changed.append((change, ask))
            limits = driver.rt.aio.limits
            changing = limits.reset(change.name) if change.fields is None else limits.set(change.name, **change.fields)
            await unless_lost(driver, driver.history.wait(ask, changing))

    async def _look_at_permits(self) -> None:
        """Look again and again whether calls wait that may begin, and whether permits are held for nothing."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            actor = self._world.actor
            if actor is None:
                continue
            for model, limiter in actor._limiters.items():
                if limiter._waiting and limiter._has_room(actor._now_s()):
                    self._note(f"a call of {model} waits that may begin")
            self._look_for_orphans(set(actor._permits))

    def _look_for_orphans(self, permits: set[str]) -> None:
        world = self._world
        known = {permit for process, client in world.clients if not process.is_dead for permit in client._permits}
        orphans = permits - known
        self._orphans_s = {permit: self._orphans_s.get(permit, now_s()) for permit in sorted(orphans)}
        for since_s in self._orphans_s.values():
            if now_s() - since_s > ORPHAN_S + sum(until_s - from_s for _, from_s, until_s in world.frozen):
                self._note("a permit is held that nothing knows of")

    def _note(self, problem: str) -> None:
        if problem not in self._left.problems:
            self._left.problems.append(problem)
