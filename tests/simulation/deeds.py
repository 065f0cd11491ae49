"""Plays what people do beside starting turns: see `people`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from actors import Content, FunctionCall, FunctionResponse, Part
from tests.model.story import is_seal
from tests.simulation.scenarios import Act

if TYPE_CHECKING:
    from tests.simulation.player import Player

T = TypeVar("T")


async def do_beside(player: Player, act: Act, invocation_id: str) -> None:
    """Do an act while a turn runs."""
    match act.deed:
        case "conflict":
            await player.follow(player.driver(), invocation_id, "conflict", message="something else", fingerprint="other")
        case "repeat":
            driver = player.asking.get(invocation_id)
            if driver is not None and not driver.is_dead:
                await player.follow(driver, invocation_id, "again", **player.request(invocation_id))
        case "elsewhere":
            await _elsewhere(player, act, invocation_id)
        case "withdraw":
            await player.withdraw(f"{invocation_id}-withdrawn-{act.share:.3f}", act.share)
        case "wrong":
            wrongs: Sequence[dict[str, Any]] = (
                {"message": "hi", "run_config": player.config(agent="nobody")},
                {"message": ""},
                {"response": {"yes": 1}, "call_id": "no call"},
            )
            await player.follow(player.driver(), f"{invocation_id}-wrong", "wrong", **_at(wrongs, act.share))
        case "unnamed":
            await player.follow(player.driver(), "", "unnamed", message="hi")
        case "rewind" | "fork" | "delete" | "note" | "archive":
            await player.change(act.deed, invocation_id)


async def do_afterwards(player: Player, act: Act, invocation_id: str) -> None:
    """Do an act when a turn is over."""
    await player.wait(act.after_s)
    turn = player.turn(0) if act.differs else invocation_id
    of_turn = [event for event in await player.log() if event.invocation_id == turn]
    match act.deed:
        case "retry":
            await player.follow(player.driver(), turn, "retry")
        case "rerun":
            if steps := [event for event in of_turn if not is_seal(event)]:
                # A turn that has an end has no options any more.
                step, options = _at(steps, act.share).id, player.config()
                await player.follow(player.driver(), turn, "retry", from_event=step, run_config=options)
        case "cancel":
            await player.cancel(turn)
        case "late":
            calls = [call for event in of_turn for call in event.function_calls() if call.id in event.long_running_tool_ids]
            if calls:
                await _answer_late(player, act, turn, _at(calls, act.share))
        case "elsewhere":
            await _elsewhere(player, act, f"{invocation_id}-after-{act.share:.3f}")
        case _ if act.in_fork:
            await player.change(act.deed, player.turn(int(act.share * player.turns_begun)), player.fork)
        case _:
            await player.change(act.deed, turn)


async def _elsewhere(player: Player, act: Act, invocation_id: str) -> None:
    """Run a turn in another session, which writes what sessions of the user and of the app share."""
    session = _at((player.second, player.fork, player.cased), act.share)
    written = {"user:by": invocation_id, "app:by": invocation_id, "by": invocation_id}
    await player.ask(f"{invocation_id}-elsewhere", "hi", "elsewhere", of=session, state_delta=written)


async def _answer_late(player: Player, act: Act, turn: str, call: FunctionCall) -> None:
    """Answer a call that may have its answer, and whose turn may be over, or may have been cancelled."""
    response, driver = player.said(call.id or "", yes=not act.differs), player.driver()
    asked: dict[str, Any] = {"response": response}
    if act.waits:
        part = Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))
        asked = {"message": Content(role="user", parts=[part])}
    await player.follow(driver, turn, "answer", call.id or "", **asked)


def _at(items: Sequence[T], share: float) -> T:
    return items[int(share * len(items))]
