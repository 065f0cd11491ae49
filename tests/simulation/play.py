"""One simulation: a scenario is played in a world with faults, by drivers that may be lost as well."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

import msgspec

from actors import Content, Event, FunctionResponse, Part, RunConfig
from actors.messages.codec import decode_event
from actors.messages.session import SessionKey
from actors.rules.accounting.turn_usage import sum_of, sum_of_packed
from actors.rules.recovery.supervision import METADATA
from actors.rules.routing.pending import open_calls
from runtime.stores.sql.sessions import SqlSessionStore
from tests.model.history import Ask, Found, SessionId, TurnRecord
from tests.model.judge import problems
from tests.simulation.agents import BEGUN, TWICE, build, forget_calls
from tests.simulation.cluster import Trace
from tests.simulation.deeds import CASED, FORK, SECOND, change, do_afterwards, do_beside
from tests.simulation.drivers import APP, Driver
from tests.simulation.faults import CALM, FOLLOWING, Fault, FaultPlan
from tests.simulation.logged import LoggedErrors
from tests.simulation.scenarios import Act, Scenario
from tests.simulation.virtual_loop import NO_PROCESS, StuckError, VirtualLoop
from tests.simulation.world import World, deployment_of, seeded

LIMIT_S = 900.0
"""Virtual seconds in which a scenario has to be over. Faults last less than one minute."""

SETTLE_S = 40.0
"""Virtual seconds that are waited for things that may still happen."""

IN_LINE_S = 0.05
"""Virtual seconds that a message takes to get into the line, in most networks."""

BEGINS_S = 60.0
"""A turn that is not in the log by then was refused, and nobody asks for it again."""

YES = {"confirmed": True, "yes": 1}
NO = {"confirmed": False, "no": 1}
"""Answers to calls that wait."""

KEY = SessionKey(APP, "ada", "s1")
NO_FAULTS = FaultPlan(network=CALM)
assert METADATA


class Result(msgspec.Struct):
    """What a simulation has left.

    Attributes:
        log: the session's events.
        state: of the session, as the store has it.
        asks: what drivers have asked for, and what came of it.
        found: what is left of each session.
        problems: what went wrong that never may.
        open_turns: turns that are open in the store at the end.
        begun: how often tools ran, by the id of the call.
        asked: what models were shown, each with its agent.
        messages: how many messages of each class were sent.
        moments: how often each moment came at which faults may come.
        fired: the faults that have happened.
        store_timeout_s: see FaultPlan.
    """

    log: list[Event] = []
    state: dict[str, Any] = {}
    asks: list[Ask] = []
    problems: list[str] = []
    open_turns: list[str] = []
    turns: dict[str, str] = {}
    begun: Counter[str] = msgspec.field(default_factory=Counter)
    found: dict[SessionId, Found] = {}
    asked: list[tuple[str, Sequence[Content]]] = []
    messages: dict[str, int] = {}
    moments: dict[str, int] = {}
    fired: list[tuple[float, Fault]] = []
    lasted_s: float = 0.0
    store_timeout_s: float = 0.0


def play(
    scenario: Scenario, plan: FaultPlan = NO_FAULTS, seed: int = 0, kind: type[Simulation] | None = None
) -> tuple[Result, Trace]:
    """Play a scenario.

    Args:
        seed: decides about ids, and about times that no fault decides about.
        kind: another kind of simulation.
    """
    return NO_PROCESS.copy().run(_play, scenario, plan, seed, kind or Simulation)


def _play(scenario: Scenario, plan: FaultPlan, seed: int, kind: type[Simulation]) -> tuple[Result, Trace]:
    result = Result()
    errors = LoggedErrors(result.problems)
    loggers = [logging.getLogger(name) for name in ("actors", "runtime")]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(errors)
        logger.propagate, logger.level = False, logging.ERROR
    was_enabled = gc.isenabled()
    gc.disable()
    loop = VirtualLoop()
    try:
        with seeded(loop, seed) as calls:
            forget_calls()
            simulation = kind(loop, scenario, plan, calls, seed, result)
            try:
                loop.run_until_complete(simulation.run())
            except StuckError as error:
                result.problems.append(f"hang: {error}")
            for context in loop.unhandled:
                result.problems.append(f"unhandled: {context['message']}: {context.get('exception')!r}")
            trace = simulation.world.trace
            logging.disable(logging.ERROR)
            loop.forget()
            logging.disable(logging.NOTSET)
            simulation.world.disk.clear(*kind.keys)
    finally:
        if was_enabled:
            gc.enable()
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(errors)
            logger.propagate, logger.level = propagate, level
    return result, trace


class Simulation:
    """Plays a scenario in a world. `keys`: of its sessions."""

    keys: ClassVar[Sequence[SessionKey]] = (KEY, SECOND, FORK, CASED)

    def __init__(self, loop: VirtualLoop, scenario: Scenario, plan: FaultPlan, calls: Any, seed: int, result: Result) -> None:
        self._loop = loop
        self._scenario = scenario
        self._result = result
        self.world = World(loop, deployment_of(build(scenario.root)), plan, calls, seed, scenario.groups)
        self._tasks: list[asyncio.Task[None]] = []
        self._fingerprints: dict[str, str] = {}
        self.asking: dict[str, Driver] = {}

    async def run(self) -> None:
        """Play all turns, wait for the end of the faults, and look at what is left."""
        result, world = self._result, self.world
        world.start()
        try:
            async with asyncio.timeout(LIMIT_S):
                for number, acts in enumerate(self._scenario.turns):
                    await self.before_turn(number)
                    await self._turn(f"turn-{number}", acts)
                    await self._afterwards(number)
                await self.after_turns()
        except TimeoutError:
            result.problems.append(f"hang: not over after {LIMIT_S:g} s")
        result.lasted_s = self._loop.time()
        await asyncio.sleep(SETTLE_S)
        await self._look()

    async def before_turn(self, number: int) -> None:
        """Do what comes before a turn."""

    async def after_turns(self) -> None:
        """Do what comes after all of them."""

    def said(self, call_id: str, *, yes: bool) -> dict[str, Any]:
        """What a user answers to a call that waits."""
        return YES if yes else NO

    def config(self, **more: Any) -> RunConfig:
        scenario = self._scenario
        return RunConfig(
            streaming="sse" if scenario.streams else "none",
            timeout=scenario.timeout_s or None,
            max_transfers=6,
            max_llm_calls=scenario.max_calls or 60,
            **more,
        )

    async def _turn(self, invocation_id: str, acts: Sequence[Act]) -> None:
        """A turn with its pauses and their answers, and what users do beside it."""
        others = [act for act in acts if act.deed == "answer"]
        deeds = {act.deed for act in acts}
        if "conflict" in deeds:
            self._fingerprints[invocation_id] = "right"
        for act in acts:
            if act.deed != "answer":
                self._tasks.append(asyncio.create_task(self._act(act, invocation_id)))
        told = await self.ask(invocation_id, **self.request(invocation_id))
        answered: set[str] = set()
        while told.ended == "Paused" and "leave" not in deeds:
            log = self.log()
            waiting = _waiting(log, invocation_id)
            if "backwards" in deeds:
                waiting.reverse()
            if not waiting or waiting[0].id in answered:
                break
            answered.add(waiting[0].id or "")
            if others:
                told = await self._answer_with_others(invocation_id, waiting[0].id, others, len(answered))
            else:
                told = await self._answer(invocation_id, waiting if "together" in deeds else waiting[:1])
        await asyncio.gather(*self._tasks)
        self._tasks.clear()

    def request(self, invocation_id: str) -> dict[str, Any]:
        """What a driver asks with for a turn of the scenario."""
        return {"message": f"do {invocation_id}", "fingerprint": self._fingerprints.get(invocation_id, "")}

    async def ask(self, invocation_id: str, message: str, how: str = "run", **asked: Any) -> Ask:
        """Run a turn until a driver knows how it ended: one that is lost is replaced by another, which asks again."""
        while True:
            driver = self.asking[invocation_id] = Driver(self.world)
            told = await self.follow(driver, invocation_id, how, message=message, **asked)
            if told.ended:
                return told

    async def _answer(self, invocation_id: str, calls: Sequence[Any]) -> Ask:
        call = calls[0]
        responses = [FunctionResponse(id=each.id, name=each.name, response=self.said(each.id, yes=True)) for each in calls]
        driver = Driver(self.world)
        message = Content(role="user", parts=[Part(function_response=response) for response in responses])
        told = await self.follow(driver, invocation_id, "answer", call.id, message=message)
        while not told.ended:
            # The lost driver may have sent the answer.
            await asyncio.sleep(SETTLE_S)
            driver = Driver(self.world)
            is_there = any(r.id == call.id for e in self.log() if e.author == "user" for r in e.function_responses())
            if is_there:
                told = await self.follow(driver, invocation_id, "attach")
            else:
                told = await self.follow(driver, invocation_id, "answer", call.id, message=message)
        return told

    async def _answer_with_others(self, invocation_id: str, call_id: str, others: Sequence[Act], number: int) -> Ask:
        """Several drivers answer one call, with the knowledge that it waits."""
        if number == 1 and any(act.waits for act in others):
            # Once: a model of a script begins it again after another turn, and would ask for ever.
            other = f"{invocation_id}-during"
            self._tasks.append(asyncio.create_task(self._put_in_line(other)))
            await self._begins(other)
        async with asyncio.TaskGroup() as answers:
            for act in others:
                answers.create_task(self._answer_after(act, invocation_id, call_id))
            first = answers.create_task(self._send_answer(invocation_id, call_id, self.said(call_id, yes=True)))
        told = first.result()
        while not told.ended:
            # The lost driver may have sent the answer.
            await asyncio.sleep(SETTLE_S)
            told = await self._send_answer(invocation_id, call_id, self.said(call_id, yes=True))
        while told.ended == "TurnStateError" or not told.ended:
            told = await self.follow(Driver(self.world), invocation_id, "attach")
        return told

    async def _put_in_line(self, invocation_id: str) -> None:
        await self.ask(invocation_id, "hi", "enqueue", run_config=self.config(on_concurrent_turn="enqueue"))

    async def _answer_after(self, act: Act, invocation_id: str, call_id: str) -> None:
        await asyncio.sleep(act.after_s)
        await self._send_answer(invocation_id, call_id, self.said(call_id, yes=not act.differs))

    async def _send_answer(self, invocation_id: str, call_id: str, response: dict[str, Any]) -> Ask:
        return await self.follow(
            Driver(self.world), invocation_id, "answer", call_id, response=response, run_config=self.config()
        )

    async def _follow_in_line(self, invocation_id: str) -> None:
        """A driver puts a turn in line, another one follows it, and the first may be lost."""
        if not await self._begins(invocation_id):
            return
        starter, in_line = Driver(self.world), f"{invocation_id}-in-line"
        config = self.config(on_concurrent_turn="enqueue")
        async with asyncio.TaskGroup() as drivers:
            drivers.create_task(self.follow(starter, in_line, "line", message="hi", run_config=config))
            await asyncio.sleep(IN_LINE_S)
            drivers.create_task(self.follow(Driver(self.world), in_line, "follow"))
            await asyncio.sleep(IN_LINE_S)
            self.world.faults.moment(FOLLOWING, starter, "sent")

    async def _begins(self, invocation_id: str) -> bool:
        """Wait until a turn is in the log: another one would be the first to begin. False if it was refused for good."""
        for _ in range(round(BEGINS_S / 0.1)):
            if _is_there(self.log(), invocation_id):
                return True
            await asyncio.sleep(0.1)
        return False

    async def follow(self, driver: Driver, invocation_id: str, how: str, call_id: str = "", **asked: Any) -> Ask:
        """Have a driver start or join a turn, and read it to its end, unless the driver is lost before."""
        if how not in ("attach", "follow", "retry"):
            asked.setdefault("run_config", self.config())
        key = asked.pop("key", KEY)
        told = _ask_of(driver, key, invocation_id, how, call_id, asked)
        await unless_lost(driver, _read(driver, told, asked))
        return told

    async def _act(self, act: Act, invocation_id: str) -> None:
        await asyncio.sleep(act.after_s)
        match act.deed:
            case "again":
                await self.ask(invocation_id, how="again", **self.request(invocation_id))
            case "attach":
                told = await self.follow(Driver(self.world), invocation_id, "attach")
                del told
            case "follow":
                await self._follow_in_line(invocation_id)
            case "enqueue" | "interrupt" | "reject":
                if act.deed != "enqueue" or await self._begins(invocation_id):
                    config = self.config(on_concurrent_turn=act.deed)
                    await self.ask(f"{invocation_id}-{act.deed}", "hi", act.deed, run_config=config)
            case "cancel":
                await self.cancel(invocation_id)
            case _:
                await do_beside(self, act, invocation_id)

    async def cancel(self, invocation_id: str) -> None:
        """Have a driver cancel a turn, unless that is lost before."""
        driver = Driver(self.world)
        await unless_lost(driver, _cancel(driver, noted(driver, "cancel", turn=invocation_id)))

    async def change(self, what: str, turn: str) -> None:
        """Have a driver change the session, unless that is lost before."""
        driver = Driver(self.world)
        given = {"fork_id": FORK.session} if what == "fork" else {}
        ask = noted(driver, "append_event" if what == "note" else what, turn=turn, given=given)
        await unless_lost(driver, change(driver, ask))

    async def _afterwards(self, number: int) -> None:
        """What is done when a turn is over."""
        acts = self._scenario.between[number] if number < len(self._scenario.between) else ()
        async with asyncio.TaskGroup() as doing:
            for act in acts:
                doing.create_task(do_afterwards(self, act, f"turn-{number}"))

    def log(self) -> list[Event]:
        return [decode_event(raw, seq) for seq, raw in self.world.disk.store.events(KEY)]

    async def _look(self) -> None:
        """Run one more turn, which has to work, and note what is left."""
        result, world, store, driver = self._result, self.world, self.world.disk.store, Driver(self.world)
        open_before = [row.invocation_id for _, row in store.running(APP)]
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.ask("last", "hi")
                await asyncio.sleep(SETTLE_S)
                statistics = await driver.rt._client.engine.runner.statistics()
                if statistics.counts["running"]:
                    result.problems.append("the Runner runs a turn that is over")
                await self._get()
        except TimeoutError:
            result.problems.append("hang: the next turn does not end")
        result.open_turns = open_before
        for key in self.keys:
            driver.history.found[key.user, key.session] = _found(store, key)
        found = driver.history.found[KEY.user, KEY.session]
        result.log, result.state = list(found.log), dict(found.state)
        result.turns = {invocation_id: record.status for invocation_id, record in found.turns.items()}
        result.asks, result.found = driver.history.asks, driver.history.found
        result.begun = Counter(BEGUN)
        result.asked = [(call.agent, call.contents) for call in driver.history.models]
        result.messages, result.moments = dict(world.wires.counts), dict(world.faults.moments)
        result.fired = world.faults.fired
        result.problems += world.promises.broken
        result.problems += [f"call {each} was repeated while it was under way" for each in TWICE]
        result.store_timeout_s = world.store_timeout_s
        result.problems += problems(driver.history)

    async def _get(self) -> None:
        """Read the session: a driver that is lost is replaced by another, which reads it again."""
        while True:
            driver = Driver(self.world)
            told = noted(driver, "get")
            await unless_lost(driver, driver.history.wait(told, driver.rt.aio.sessions.get(KEY.user, KEY.session)))
            if told.ended:
                return


def _found(store: SqlSessionStore, key: SessionKey) -> Found:
    """What the store has of a session."""
    session = store.session(key)
    if session is None:
        return Found()
    log = [decode_event(raw, seq) for seq, raw in store.events(key)]
    rows = {each: store.turn(key, each) for each in {event.invocation_id for event in log}}
    turns = {
        each: TurnRecord(status=row.status, epoch=row.epoch, used=_used(row.usage))
        for each, row in rows.items()
        if row is not None
    }
    of_app, of_user = store.state(key.app, key.user)
    shared = {f"app:{name}": value for name, value in of_app.items()} | {f"user:{name}": value for name, value in of_user.items()}
    return Found(log=log, state={**session.state, **shared}, turns=turns, written_s=session.updated_s)


def _used(usage: bytes) -> dict[str, int] | None:
    return sum_of(sum_of_packed([usage]).values())._asdict() if usage else None


def noted(driver: Driver, what: str, key: SessionKey = KEY, **of: Any) -> Ask:
    """A driver is about to ask for something of a session."""
    return driver.history.ask(what, program=driver.name, user=key.user, session=key.session, **of)


async def unless_lost(driver: Driver, work: Coroutine[Any, Any, Any]) -> None:
    """Have a driver do something, and wait for that, or until the driver is lost."""
    doing = driver.spawn(work)
    gone = asyncio.create_task(driver.gone.wait())
    await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if doing.done():
        doing.result()


def _ask_of(driver: Driver, key: SessionKey, invocation_id: str, how: str, call_id: str, asked: dict[str, Any]) -> Ask:
    what = {"attach": "attach", "follow": "attach", "retry": "retry"}.get(how, "answer" if "response" in asked else "run")
    message = asked.get("message")
    content = Content.of_text(message) if isinstance(message, str) else message
    sent = {each.id: each.response for each in content.function_responses()} if content is not None else {}
    responses = {call_id: asked["response"]} if what == "answer" else sent
    config = asked.get("run_config", RunConfig())
    given = {name: asked[name] for name in ("from_event", "state_delta") if name in asked}
    return noted(
        driver,
        what,
        key,
        how=how,
        turn=invocation_id,
        message=content,
        responses=responses,
        fingerprint=asked.get("fingerprint", ""),
        config=config,
        given=given,
    )


async def _read(driver: Driver, told: Ask, asked: dict[str, Any]) -> None:
    """Start or attach a turn and read it to its end."""
    where: dict[str, Any] = {"user_id": told.user, "session_id": told.session}
    if told.what == "attach":
        turn = driver.rt.attach(**where, invocation_id=told.turn)
    elif told.what == "retry":
        turn = driver.rt.retry(**where, invocation_id=told.turn, **asked)
    elif told.what == "answer":
        turn = driver.rt.answer(next(iter(told.responses)), **where, **asked)
    else:
        more: dict[str, Any] = {} if told.responses else {"invocation_id": told.turn}
        turn = driver.rt.run(**where, **more, **asked)
    await driver.history.read(told, turn)


async def _cancel(driver: Driver, told: Ask) -> None:
    turn = driver.rt.attach(user_id="ada", session_id="s1", invocation_id=told.turn)
    await driver.history.wait(told, turn.aio.cancel())


def _is_there(log: Sequence[Event], invocation_id: str) -> bool:
    return any(event.invocation_id == invocation_id for event in log)


def _waiting(log: Sequence[Event], invocation_id: str) -> list[Any]:
    """The calls at which a turn waits for the user, by their agents' names."""
    calls = open_calls(event for event in log if event.invocation_id == invocation_id)
    return [waiting.call for waiting in sorted(calls, key=lambda waiting: (waiting.event.author, waiting.event.seq))]
