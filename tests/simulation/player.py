"""What people do in a scenario: they begin turns, answer, repeat, cancel and change, by way of programs that may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from actors import Content, Event, EventActions, FunctionResponse, Part, RunConfig
from actors.layers.listing.rules import open_calls
from tests.model.history import Ask, SessionId
from tests.simulation.deeds import do_afterwards, do_beside
from tests.simulation.scenarios import Act, Scenario

SETTLE_S = 40.0
"""Seconds that are waited for things that may still happen."""

IN_LINE_S = 0.05
"""Seconds that a message takes to get into the line, in most networks."""

BEGINS_S = 60.0
"""A turn that is not in the log by then was refused, and no program asks for it again."""

OLD_S = 0.5
"""What is pruned or archived is as old as this."""

YES = {"confirmed": True, "yes": 1}
NO = {"confirmed": False, "no": 1}
"""Answers to calls that wait."""

WHAT = {"attach": "attach", "follow": "attach", "retry": "retry"}
"""Methods for what is done with a turn that there may be."""


class Driver(Protocol):
    """A program, which may be lost at any time."""

    name: str
    is_dead: bool

    async def do(self, what: str, **of: Any) -> Ask:
        """Ask for something, and wait for what comes of it, or until the program is lost: then the request has no end.

        Args:
            of: fields of the request.
        """
        ...


class Player:
    """Plays a scenario in a world, which is simulated or real.

    Args:
        user: whose sessions they are.
        turns: begins the names of its turns.
        pace: of a second of the scenario so much passes.

    Attributes:
        session, second, fork, cased: the session of the scenario, others of the user, and one of another user whose name is
            almost the same.
        asking: the drivers that have asked for turns last, by the turns.
        turns_begun: how many of its turns have begun.
    """

    def __init__(self, scenario: Scenario, user: str = "ada", turns: str = "turn", pace: float = 1.0) -> None:
        self.session, self.second, self.fork = ((user, session) for session in ("s1", "s2", "s3"))
        self.cased = (user.capitalize(), "s1")
        self.asking: dict[str, Driver] = {}
        self.turns_begun = 0
        self._scenario = scenario
        self._turns = turns
        self._pace = pace
        self._tasks: list[asyncio.Task[None]] = []
        self._fingerprints: dict[str, str] = {}

    def driver(self) -> Driver:
        """A program that asks."""
        raise NotImplementedError

    async def log(self) -> list[Event]:
        """The log of the session."""
        raise NotImplementedError

    def asks(self, driver: Driver) -> Sequence[Ask]:
        """What a driver has asked for, and what has come of that so far, where it is known."""
        return ()

    def note_followed(self, driver: Driver) -> None:
        """Another program follows what a driver has put in line."""

    async def before_turn(self, number: int) -> None:
        """Do what comes before a turn."""

    async def wait(self, seconds: float) -> None:
        """Let time of the scenario pass."""
        await asyncio.sleep(seconds * self._pace)

    def turn(self, number: int) -> str:
        """The id of a turn of the scenario."""
        return f"{self._turns}-{number}"

    async def play(self) -> None:
        """Play all turns, and what is done between them."""
        for number, acts in enumerate(self._scenario.turns):
            self.turns_begun = number + 1
            await self.before_turn(number)
            await self._turn(self.turn(number), acts)
            await self._afterwards(number)

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
        if self._scenario.is_hasty and "leave" not in deeds:
            self._tasks.append(asyncio.create_task(self._answer_hastily(invocation_id)))
        told = await self.ask(invocation_id, **self.request(invocation_id))
        answered: set[str] = set()
        while told.ended == "Paused" and "leave" not in deeds:
            log = await self.log()
            waiting = _waiting(log, invocation_id)
            if "backwards" in deeds:
                waiting.reverse()
            if not waiting or waiting[0].id in answered:
                break
            answered.add(waiting[0].id or "")
            await self.wait(self._scenario.thinks_s)
            if others:
                told = await self._answer_with_others(invocation_id, waiting[0].id, others, len(answered))
            else:
                told = await self._answer(invocation_id, waiting if "together" in deeds else waiting[:1])
        await asyncio.gather(*self._tasks)
        self._tasks.clear()

    def request(self, invocation_id: str) -> dict[str, Any]:
        """What a driver asks with for a turn of the scenario."""
        key = f"asked_{self.turns_begun % 2}"
        written: dict[str, Any] = {"state_delta": {key: invocation_id, invocation_id: 1}} if self._scenario.writes else {}
        if self._scenario.shares:
            written["state_delta"] |= {f"{scope}asked": invocation_id for scope in ("user:", "app:", "temp:")}
        agent = [*self._scenario.addressed, *[""] * self.turns_begun][self.turns_begun - 1]
        config = {"run_config": self.config(agent=agent)} if agent else {}
        return {"message": f"do {invocation_id}", "fingerprint": self._fingerprints.get(invocation_id, ""), **written, **config}

    async def ask(self, invocation_id: str, message: str, how: str = "run", **asked: Any) -> Ask:
        """Run a turn until a driver knows how it ended: one that is lost is replaced by another, which asks again."""
        while True:
            driver = self.asking[invocation_id] = self.driver()
            told = await self.follow(driver, invocation_id, how, message=message, **asked)
            if told.ended:
                return told

    async def _answer_hastily(self, invocation_id: str) -> None:
        """The program that has asked for a turn answers the first call that it is given, maybe before the turn is paused."""
        for _ in range(round(BEGINS_S / 0.01)):
            await self.wait(0.01)
            driver = self.asking[invocation_id]
            asks = self.asks(driver)
            call = next((call_id for ask in asks for event in ask.events for call_id in event.long_running_tool_ids), None)
            if call is not None and not driver.is_dead:
                await self.follow(driver, invocation_id, "answer", call, response=self.said(call, yes=True))
            if call is not None or all(ask.ended for ask in asks):
                return

    async def _sees_piece(self, invocation_id: str) -> bool:
        """Wait until the program that has asked for a turn is given a piece of an answer. False if that does not come."""
        for _ in range(round(BEGINS_S / 0.01)):
            asks = self.asks(self.asking[invocation_id])
            if any(event.partial for ask in asks for _, event in ask.heard):
                return True
            if all(ask.ended for ask in asks):
                return False
            await self.wait(0.01)
        return False

    async def _answer(self, invocation_id: str, calls: Sequence[Any]) -> Ask:
        call = calls[0]
        responses = [FunctionResponse(id=each.id, name=each.name, response=self.said(each.id, yes=True)) for each in calls]
        driver = self.driver()
        message = Content(role="user", parts=[Part(function_response=response) for response in responses])
        told = await self.follow(driver, invocation_id, "answer", call.id, message=message)
        while not told.ended:
            # The lost driver may have sent the answer.
            await self.wait(SETTLE_S)
            driver = self.driver()
            is_there = any(r.id == call.id for e in await self.log() if e.author == "user" for r in e.function_responses())
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
            await self.wait(SETTLE_S)
            told = await self._send_answer(invocation_id, call_id, self.said(call_id, yes=True))
        while told.ended == "TurnStateError" or not told.ended:
            told = await self.follow(self.driver(), invocation_id, "attach")
        return told

    async def _put_in_line(self, invocation_id: str) -> None:
        await self.ask(invocation_id, "hi", "enqueue", run_config=self.config(on_concurrent_turn="enqueue"))

    async def _answer_after(self, act: Act, invocation_id: str, call_id: str) -> None:
        await self.wait(act.after_s)
        await self._send_answer(invocation_id, call_id, self.said(call_id, yes=not act.differs))

    async def _send_answer(self, invocation_id: str, call_id: str, response: dict[str, Any]) -> Ask:
        return await self.follow(self.driver(), invocation_id, "answer", call_id, response=response, run_config=self.config())

    async def _follow_in_line(self, invocation_id: str) -> None:
        """A driver puts a turn in line, another one follows it, and the first may be lost."""
        if not await self._begins(invocation_id):
            return
        starter, in_line = self.driver(), f"{invocation_id}-in-line"
        config = self.config(on_concurrent_turn="enqueue")
        async with asyncio.TaskGroup() as drivers:
            drivers.create_task(self.follow(starter, in_line, "line", message="hi", run_config=config))
            await asyncio.sleep(IN_LINE_S)
            drivers.create_task(self.follow(self.driver(), in_line, "follow"))
            await asyncio.sleep(IN_LINE_S)
            self.note_followed(starter)

    async def _begins(self, invocation_id: str) -> bool:
        """Wait until a turn is in the log: another one would be the first to begin. False if it was refused for good."""
        for _ in range(round(BEGINS_S / 0.1)):
            if _is_there(await self.log(), invocation_id):
                return True
            await self.wait(0.1)
        return False

    async def follow(
        self,
        driver: Driver,
        invocation_id: str,
        how: str,
        call_id: str = "",
        *,
        of: SessionId | None = None,
        message: Content | str | None = None,
        response: dict[str, Any] | None = None,
        fingerprint: str = "",
        run_config: RunConfig | None = None,
        **given: Any,
    ) -> Ask:
        """Have a driver start or join a turn, and read it to its end, unless the driver is lost before."""
        what = WHAT.get(how, "run" if response is None else "answer")
        content = Content.of_text(message) if isinstance(message, str) else message
        sent = {each.id: each.response for each in content.function_responses()} if content is not None else {}
        if run_config is None:
            run_config = self.config() if how not in WHAT else RunConfig()
        return await self._ask(
            driver,
            what,
            of,
            how=how,
            turn=invocation_id,
            message=content,
            responses=sent if response is None else {call_id: response},
            fingerprint=fingerprint,
            config=run_config,
            given=given,
        )

    async def _ask(self, driver: Driver, what: str, of: SessionId | None = None, **more: Any) -> Ask:
        user, session = of or self.session
        return await driver.do(what, user=user, session=session, **more)

    async def _act(self, act: Act, invocation_id: str) -> None:
        await self.wait(act.after_s)
        match act.deed:
            case "again":
                await self.ask(invocation_id, how="again", **self.request(invocation_id))
            case "attach":
                await self.follow(self.driver(), invocation_id, "attach")
            case "follow":
                await self._follow_in_line(invocation_id)
            case "enqueue" | "interrupt" | "reject":
                if act.deed != "enqueue" or await self._begins(invocation_id):
                    config = self.config(on_concurrent_turn=act.deed)
                    await self.ask(f"{invocation_id}-{act.deed}", "hi", act.deed, run_config=config)
            case "cancel":
                await self.cancel(invocation_id)
            case "barge":
                if await self._sees_piece(invocation_id):
                    config = self.config(on_concurrent_turn="interrupt")
                    await self.ask(f"{invocation_id}-barge", "hi", "interrupt", run_config=config)
            case _:
                await do_beside(self, act, invocation_id)

    async def cancel(self, invocation_id: str) -> None:
        """Have a driver cancel a turn, unless that is lost before."""
        await self._ask(self.driver(), "cancel", turn=invocation_id)

    async def withdraw(self, invocation_id: str, share: float) -> None:
        """Have a driver put a turn in line, and another one cancel it."""
        config = self.config(on_concurrent_turn="enqueue")
        async with asyncio.TaskGroup() as drivers:
            drivers.create_task(self.follow(self.driver(), invocation_id, "line", message="hi", run_config=config))
            await asyncio.sleep(share * IN_LINE_S)
            await self.cancel(invocation_id)

    async def change(self, what: str, turn: str, of: SessionId | None = None) -> None:
        """Have a driver change the session, or another one, unless the driver is lost before."""
        given: dict[str, Any] = {}
        if what == "fork":
            given["fork_id"] = self.fork[1]
        elif what in ("prune", "archive"):
            # Of all sessions of the user.
            given["older_than"], of = OLD_S * self._pace, (self.session[0], "")
        elif what == "note":
            actions = EventActions(state_delta={"noted": turn})
            given["event"] = Event(author="user", content=Content.of_text("by the way", role="user"), actions=actions)
        await self._ask(self.driver(), "append_event" if what == "note" else what, of, turn=turn, given=given)

    async def _afterwards(self, number: int) -> None:
        """What is done when a turn is over."""
        acts = self._scenario.between[number] if number < len(self._scenario.between) else ()
        async with asyncio.TaskGroup() as doing:
            for act in acts:
                doing.create_task(do_afterwards(self, act, self.turn(number)))


def _is_there(log: Sequence[Event], invocation_id: str) -> bool:
    return any(event.invocation_id == invocation_id for event in log)


def _waiting(log: Sequence[Event], invocation_id: str) -> list[Any]:
    """The calls at which a turn waits for the user, by their agents' names."""
    calls = open_calls(event for event in log if event.invocation_id == invocation_id)
    return [waiting.call for waiting in sorted(calls, key=lambda waiting: (waiting.event.author, waiting.event.seq))]
