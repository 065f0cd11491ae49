"""One weather: turns run while nodes come and go, and what they leave is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from actors import AgentTool, Content, FunctionCall, FunctionTool, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext
from actors.errors import RaygroveError
from actors.messages.codec import decode_event
from actors.messages.event import USER, Event
from actors.messages.session import SessionKey
from tests.simulation.drivers import APP, Driver
from tests.simulation.nodes.weather import Asked, Weather, weather
from tests.simulation.nodes.world import NodesWorld
from tests.simulation.stores import clear_used
from tests.simulation.virtual_loop import NO_PROCESS, StuckError, VirtualLoop
from tests.simulation.world import deployment_of, seeded

LIMIT_S = 300.0
"""Virtual seconds in which all has to be over."""

SETTLES_S = 35.0
"""Virtual seconds that nodes and processes have afterwards."""

STANDS_S = 5.0
"""The longest that a turn stands while nodes drain, and have time for it."""

USER_ID = "ada"


class Left(msgspec.Struct):
    """What is left.

    Attributes:
        ended: how each turn has ended, by its index: its text, or the class of the error.
        shown: the ids of the events that its program was shown.
        pauses_s: the longest time without one, in which its tool did not work.
        again: calls that ran once more though their result was stored.
        logs: of sessions, with the states of their turns.
        messages: how many were sent.
    """

    ended: dict[int, str] = {}
    shown: dict[int, list[str]] = {}
    pauses_s: dict[int, float] = {}
    again: list[str] = []
    logs: dict[int, list[Event]] = {}
    states: dict[str, str] = {}
    problems: list[str] = []
    messages: int = 0


PLAYS: list[tuple[NodesWorld, Weather, Left]] = []
"""The one that runs now: models and tools find it here."""


def key_of(session: int) -> SessionKey:
    """The key of a session."""
    return SessionKey(APP, USER_ID, f"s{session}")


def check(seed: int) -> list[str]:
    """What does not hold for the weather of a seed."""
    given = weather(seed)
    return list(problems(given, play(given, seed)))


def play(given: Weather, seed: int) -> Left:
    """Play a weather."""
    return NO_PROCESS.copy().run(_play, given, seed)


def _play(given: Weather, seed: int) -> Left:
    left, loop = Left(), VirtualLoop()
    sessions = {asked.session for asked in given.turns}
    with seeded(loop, seed) as calls:
        world = NodesWorld(loop, deployment_of(_tree()), given, calls, seed)
        PLAYS.append((world, given, left))
        try:
            loop.run_until_complete(_meet(world, given, left))
            left.logs = {
                each: [decode_event(raw, seq) for seq, raw in world.disk.store.events(key_of(each))] for each in sessions
            }
            left.states = {row.invocation_id: row.status for row in world.disk.turns.values()}
        except StuckError as error:
            left.problems.append(f"hang: {error}")
        finally:
            PLAYS.clear()
            left.messages = sum(world.wires.counts.values())
            left.problems += [*world.problems, *world.promises.broken, *_unseen_errors(loop)]
            loop.forget()
            clear_used()
    return left


def _unseen_errors(loop: VirtualLoop) -> Iterator[str]:
    """Errors of tasks that nothing has looked at."""
    for task in loop.tasks:
        if task.done() and not task.cancelled() and task._log_traceback:
            yield f"a task has failed: {task.exception()!r}"


async def _meet(world: NodesWorld, given: Weather, left: Left) -> None:
    world.start()
    programs = [Driver(world), Driver(world)]
    turns = [_turn(programs[asked.program], number, asked, left) for number, asked in enumerate(given.turns)]
    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*turns)
    except TimeoutError:
        left.problems.append(f"hang: turns {set(range(len(given.turns))) - set(left.ended)} are not over")
    await asyncio.sleep(SETTLES_S)


async def _turn(program: Driver, number: int, asked: Asked, left: Left) -> None:
    await asyncio.sleep(asked.at_s)
    shown: list[str] = []
    left.shown[number] = shown
    loop = asyncio.get_running_loop()

    async def run() -> str:
        key = key_of(asked.session)
        try:
            turn = program.rt.run(user_id=key.user, session_id=key.session, message=str(number), invocation_id=f"t{number}")
            seen_s = loop.time()
            async for event in turn:
                works = any(event.function_responses())
                pause_s = loop.time() - seen_s - (asked.takes_s if works else 0.0)
                # What others ask in its session goes first.
                left.pauses_s[number] = max(left.pauses_s.get(number, 0.0), pause_s) if shown else 0.0
                seen_s = loop.time()
                shown.append(event.id)
            return (await turn).text
        except RaygroveError as error:
            return f"{type(error).__name__}: {error}"

    left.ended[number] = await program.spawn(run())


def problems(given: Weather, left: Left) -> Iterator[str]:
    """Nothing fails, nothing is lost, nothing is there twice, and nothing stands for long while nodes only drain in good time."""
    yield from left.problems
    if given.is_mild:
        late = {number: pause_s for number, pause_s in left.pauses_s.items() if pause_s > STANDS_S}
        yield from (f"turn {number} stood {pause_s:.1f} s" for number, pause_s in late.items())
    yield from (f"call {each} ran again, though its result was stored" for each in left.again)
    for number, asked in enumerate(given.turns):
        ended, log = left.ended.get(number, "nothing"), left.logs.get(asked.session, [])
        if ended != f"{number} is done":
            yield f"turn {number} has ended as {ended}"
        elif left.states.get(f"t{number}") != "finished":
            yield f"turn {number} was answered, and is {left.states.get(f't{number}')} in the store"
        if missing := set(left.shown.get(number, ())) - {event.id for event in log}:
            yield f"turn {number} has shown events that are not in the log: {missing}"
        if sum(event.author == USER and event.text == str(number) for event in log) != 1:
            yield f"the message of turn {number} is not in the log once"
    for session, log in left.logs.items():
        if [event.seq for event in log] != list(range(1, len(log) + 1)):
            yield f"the log of session {session} has gaps"
        often = Counter(event.id for event in log) + Counter(
            response.id or "" for event in log for response in event.function_responses()
        )
        yield from (f"{each} is in the log of session {session} {times} times" for each, times in often.items() if times > 1)


async def work(number: int, tool_context: ToolContext) -> str:
    """Work."""
    world, given, left = PLAYS[0]
    asked, call_id = given.turns[number], tool_context.function_call_id
    events = [decode_event(raw, seq) for seq, raw in world.disk.store.events(key_of(asked.session))]
    if any(response.id == call_id for event in events for response in event.function_responses()):
        left.again.append(call_id)
    await asyncio.sleep(asked.takes_s)
    return f"{number} is done"


class WorkerModel:
    """Has the tool work, or asks the expert, and then says that it is done."""

    def __init__(self, *, is_expert: bool = False) -> None:
        self._is_expert = is_expert

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """The next step."""
        number = next(
            int(content.text.split()[-1])
            for content in reversed(request.contents)
            if content.role == "user" and not any(content.function_responses()) and content.text
        )
        if any(request.contents[-1].function_responses()):
            part = Part(text=f"{number} is done")
        elif PLAYS[0][1].turns[number].has_expert and not self._is_expert:
            part = _call("expert", {"request": f"do {number}"})
        else:
            part = _call("work", {"number": number})
        yield LlmResponse(content=Content(role="model", parts=[part]))


def _call(name: str, args: Mapping[str, Any]) -> Part:
    return Part(function_call=FunctionCall(name=name, args=dict(args)))


def _tree() -> LlmAgent:
    tool = FunctionTool(work)
    expert = LlmAgent(name="expert", description="Knows.", model=WorkerModel(is_expert=True), tools=[tool])
    return LlmAgent(name="root", model=WorkerModel(), tools=[tool, AgentTool(expert)])
