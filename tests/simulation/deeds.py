"""Plays what people do beside starting turns: see `people`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, Part
from actors.messages.session import SessionKey
from tests.model.history import Ask
from tests.simulation.drivers import APP, Driver
from tests.simulation.scenarios import Act

if TYPE_CHECKING:
    from tests.simulation.play import Simulation

T = TypeVar("T")


SECOND, FORK, CASED = SessionKey(APP, "ada", "s2"), SessionKey(APP, "ada", "s3"), SessionKey(APP, "Ada", "s1")
"""Others: of the same user, a fork of the first one, and of another user whose name is almost the same."""

OLD_S = 0.5
"""What is pruned or archived is as old as this."""


async def do_beside(simulation: Simulation, act: Act, invocation_id: str) -> None:
    """Do an act while a turn runs."""
    match act.deed:
        case "conflict":
            other = {"message": "something else", "fingerprint": "other"}
            await simulation.follow(Driver(simulation.world), invocation_id, "conflict", **other)
        case "repeat":
            driver = simulation.asking.get(invocation_id)
            if driver is not None and not driver.is_dead:
                await simulation.follow(driver, invocation_id, "again", **simulation.request(invocation_id))
        case "elsewhere":
            await _elsewhere(simulation, act, invocation_id)


async def do_afterwards(simulation: Simulation, act: Act, invocation_id: str) -> None:
    """Do an act when a turn is over."""
    await asyncio.sleep(act.after_s)
    turn = "turn-0" if act.differs else invocation_id
    of_turn = [event for event in simulation.log() if event.invocation_id == turn]
    match act.deed:
        case "retry":
            await simulation.follow(Driver(simulation.world), turn, "retry")
        case "rerun":
            if of_turn:
                step = _at(of_turn, act.share).id
                await simulation.follow(Driver(simulation.world), turn, "retry", from_event=step)
        case "cancel":
            await simulation.cancel(turn)
        case "late":
            calls = [call for event in of_turn for call in event.function_calls() if call.id in event.long_running_tool_ids]
            if calls:
                await _answer_late(simulation, act, turn, _at(calls, act.share))
        case "elsewhere":
            await _elsewhere(simulation, act, f"{invocation_id}-after-{act.share:.3f}")
        case _:
            await simulation.change(act.deed, turn)


async def _elsewhere(simulation: Simulation, act: Act, invocation_id: str) -> None:
    """Run a turn in another session, which writes what sessions of the user and of the app share."""
    key = _at((SECOND, FORK, CASED), act.share)
    written = {"user:by": invocation_id, "app:by": invocation_id, "by": invocation_id}
    await simulation.ask(f"{invocation_id}-elsewhere", "hi", "elsewhere", key=key, state_delta=written)


async def _answer_late(simulation: Simulation, act: Act, turn: str, call: FunctionCall) -> None:
    """Answer a call that may have its answer, and whose turn may be over, or may have been cancelled."""
    response, driver = simulation.said(call.id or "", yes=not act.differs), Driver(simulation.world)
    asked: dict[str, Any] = {"response": response}
    if act.waits:
        part = Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))
        asked = {"message": Content(role="user", parts=[part])}
    await simulation.follow(driver, turn, "answer", call.id or "", **asked)


async def change(driver: Driver, ask: Ask) -> None:
    """Have a driver change a session, or more than one."""
    sessions, where = driver.rt.aio.sessions, (ask.user, ask.session)
    match ask.what:
        case "rewind":
            work: Awaitable[Any] = sessions.rewind(*where, ask.turn)
        case "fork":
            work = sessions.fork(*where, ask.turn, FORK.session)
        case "delete":
            work = sessions.delete(*where)
        case "prune":
            work = sessions.prune(OLD_S)
        case "archive":
            work = sessions.archive(OLD_S)
        case _:
            actions = EventActions(state_delta={"noted": ask.turn})
            noted = Event(author="user", content=Content.of_text("by the way", role="user"), actions=actions)
            work = sessions.append_event(*where, noted)
    await driver.history.wait(ask, work)


def _at(items: Sequence[T], share: float) -> T:
    return items[int(share * len(items))]
