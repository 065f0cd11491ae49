"""Many turns at once: those that fit are cancelled, run on, or have their calls answered; or are only shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Literal, TypeVar

import msgspec

from actors.errors import InvocationNotFoundError, RaygroveError, TurnStateError
from actors.messages.event import now_s
from actors.messages.json_types import JsonValue
from actors.messages.turn_info import PendingCall, TurnInfo
from runtime.driver.turns.turn import Turn
from runtime.frontends.web.api.sessions import Limit
from runtime.frontends.web.api.turn_forms import AgeS
from runtime.frontends.web.api.turn_options import TurnOptions, run_config
from runtime.frontends.web.ids import Id
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import NotAllowedError, Problem, problem_of
from runtime.frontends.web.redaction import shown_turn

AT_ONCE = 16
"""Sessions whose turns are worked on at the same time."""

OPEN = ("waiting", "running", "paused")
"""The states of turns that have not ended, those in line first: one would begin when the turn before it is cancelled."""

MAX_PENDING = 10_000
"""Calls that wait among which those that fit are looked for."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]

T = TypeVar("T")


class _Some(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    limit: Limit = 100
    dry_run: bool = False


class WantedTurns(_Some, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which turns are meant: those that fit all of this.

    Attributes:
        session_id: of that session of the user in the query.
        agent: that spoke last, was selected, or failed.
        error: a part of the error, for administrators.
        text: the user or an agent has said this in it.
        invocation: the beginning of the turn's id.
        since: began at most so many seconds ago, or waits in line.
        older_than: began more than so many seconds ago.
        limit: at most so many; `more` says when further ones fit.
        dry_run: only show them.
    """

    session_id: Id | None = None
    agent: _Text | None = None
    error: _Text | None = None
    text: _Text | None = None
    invocation: _Text | None = None
    since: AgeS | None = None
    older_than: AgeS | None = None


class OpenTurns(WantedTurns, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which turns that have not ended are meant: see WantedTurns.

    Attributes:
        state: waiting, running or paused.
    """

    state: Literal["waiting", "running", "paused"] | None = None


class AnswerAll(_Some, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which calls that wait are meant, and the answer to each.

    Attributes:
        value: the answer: true or false for confirmations, else the result.
        session_id: of that session of the user in the query.
        tool: calls of this tool.
        agent: calls of this agent.
        invocation: the beginning of the turn's id.
        since, older_than: calls that were made at most, or more than so many seconds ago.
        limit: turns at most; `more` says when further ones fit.
        dry_run: only show them.
    """

    value: JsonValue
    session_id: Id | None = None
    tool: _Text | None = None
    agent: _Text | None = None
    invocation: _Text | None = None
    since: AgeS | None = None
    older_than: AgeS | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn with which it could not be done, and why."""

    user_id: str
    session_id: str
    invocation_id: str
    problem: Problem


class BulkResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was done, or would be.

    Attributes:
        turns: with which it was done, as they were before; with `dryRun` with which it would be.
        calls: the calls that were answered, or would be.
        refused: turns with which it could not be done. The rest is done.
        more: further turns fit: the same request goes on with them.
        dry_run: nothing was done.
    """

    turns: Sequence[TurnInfo] = ()
    calls: Sequence[PendingCall] = ()
    refused: Sequence[Refusal] = ()
    more: bool = False
    dry_run: bool = False


async def cancel_turns(call: Call) -> BulkResult:
    """Cancel all turns that have not ended and fit, and wait until their logs are sealed.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(OpenTurns)
    found = await _found(call, wanted, OPEN if wanted.state is None else (wanted.state,))
    return await _acted_on(call, wanted, found, lambda turn: _cancel(call, turn))


async def retry_turns(call: Call) -> BulkResult:
    """Run all failed turns that fit on from their last stored steps.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(WantedTurns)

    async def retry(turn: TurnInfo) -> None:
        user_id, session_id, invocation_id = turn.user_id, turn.session_id, turn.invocation_id
        again = call.runtime.retry(user_id=user_id, session_id=session_id, invocation_id=invocation_id, on_leave="continue")
        await _begun(again)

    return await _acted_on(call, wanted, await _found(call, wanted, ("failed",)), retry)


async def answer_all(call: Call) -> BulkResult:
    """Give all calls that wait and fit the same answer; their turns go on.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(AnswerAll)
    turns = _by_turn(_fitting(wanted, await _waiting(call, wanted.session_id)))
    chosen = turns[: wanted.limit]
    if wanted.dry_run:
        return BulkResult(calls=[each for calls in chosen for each in calls], more=len(turns) > len(chosen), dry_run=True)

    async def answer(calls: Sequence[PendingCall]) -> None:
        given = {each.call_id: wanted.value for each in calls}
        user_id, session_id = calls[0].user_id, calls[0].session_id
        config = run_config(call, TurnOptions(), streams=False)
        turn = call.runtime.answer(given, user_id=user_id, session_id=session_id, run_config=config, on_leave="continue")
        await _begun(turn)

    problems = await _each([(calls[0].user_id, calls[0].session_id) for calls in chosen], chosen, answer, call)
    done = [each for calls, problem in zip(chosen, problems, strict=True) if problem is None for each in calls]
    refused = [_refusal(calls[0], problem) for calls, problem in zip(chosen, problems, strict=True) if problem is not None]
    return BulkResult(calls=done, refused=refused, more=len(turns) > len(chosen))


async def _found(call: Call, wanted: WantedTurns, states: Sequence[str]) -> list[TurnInfo]:
    """The turns that fit, one more than are wanted if there are so many."""
    if wanted.error is not None and not call.principal.is_admin:
        raise NotAllowedError("only administrators see errors of turns, and look for them: leave error out")
    found: list[TurnInfo] = []
    for state in states:
        found += await call.runtime.aio.turns.list(
            call.any_user_id,
            wanted.session_id,
            state,
            wanted.limit + 1 - len(found),
            agent=wanted.agent,
            error=wanted.error,
            text=wanted.text,
            invocation=wanted.invocation,
            since=wanted.since,
            older_than=wanted.older_than,
        )
        if len(found) > wanted.limit:
            break
    return found


async def _acted_on(
    call: Call, wanted: WantedTurns, found: Sequence[TurnInfo], act: Callable[[TurnInfo], Awaitable[None]]
) -> BulkResult:
    chosen, more = found[: wanted.limit], len(found) > wanted.limit
    shown = [shown_turn(turn, for_operator=call.principal.is_admin) for turn in chosen]
    if wanted.dry_run:
        return BulkResult(turns=shown, more=more, dry_run=True)
    problems = await _each([(turn.user_id, turn.session_id) for turn in chosen], chosen, act, call)
    done = [turn for turn, problem in zip(shown, problems, strict=True) if problem is None]
    refused = [_refusal(turn, problem) for turn, problem in zip(chosen, problems, strict=True) if problem is not None]
    return BulkResult(turns=done, refused=refused, more=more)


async def _each(
    places: Sequence[tuple[str, str]], things: Sequence[T], act: Callable[[T], Awaitable[None]], call: Call
) -> list[Problem | None]:
    """Act on many things; those of one place one after the other. Returns for each why it could not be done."""
    results: list[Problem | None] = [None] * len(things)
    by_place: dict[tuple[str, str], list[int]] = {}
    for number, place in enumerate(places):
        by_place.setdefault(place, []).append(number)
    free = asyncio.Semaphore(AT_ONCE)

    async def in_place(numbers: Iterable[int]) -> None:
        async with free:
            for number in numbers:
                try:
                    await act(things[number])
                except RaygroveError as error:
                    results[number] = problem_of(error, for_operator=call.principal.is_admin)

    async with asyncio.TaskGroup() as group:
        for numbers in by_place.values():
            group.create_task(in_place(numbers))
    return results


async def _cancel(call: Call, turn: TurnInfo) -> None:
    user_id, session_id, invocation_id = turn.user_id, turn.session_id, turn.invocation_id
    # Its events are of no interest here.
    joined = call.runtime.attach(user_id=user_id, session_id=session_id, invocation_id=invocation_id, after_seq=turn.last_seq)
    await joined.cancel_async()
    joined.detach()
    # One that waited in line is gone.
    with suppress(InvocationNotFoundError):
        state = (await call.runtime.aio.turns.get(user_id, session_id, invocation_id)).state
        if state != "cancelled":
            raise TurnStateError(f"it has ended already: it is {state}")


async def _begun(turn: Turn) -> None:
    """Wait until a turn is open, and follow it no more. Raises why it could not start."""
    await turn.started_async()
    turn.detach()


async def _waiting(call: Call, session_id: str | None) -> Sequence[PendingCall]:
    return await call.runtime.aio.turns.pending(call.any_user_id, session_id, MAX_PENDING)


def _fitting(wanted: AnswerAll, calls: Iterable[PendingCall]) -> list[PendingCall]:
    now = now_s()
    return [
        each
        for each in calls
        if wanted.tool in (None, each.name)
        and wanted.agent in (None, each.agent)
        and each.invocation_id.startswith(wanted.invocation or "")
        and (wanted.since is None or now - each.asked_s <= wanted.since)
        and (wanted.older_than is None or now - each.asked_s > wanted.older_than)
    ]


def _by_turn(calls: Iterable[PendingCall]) -> list[Sequence[PendingCall]]:
    """The calls of each turn: answered one by one, the first answer would have the turn go on without the others."""
    turns: dict[tuple[str, str, str], list[PendingCall]] = {}
    for call in calls:
        turns.setdefault((call.user_id, call.session_id, call.invocation_id), []).append(call)
    return list(turns.values())


def _refusal(of: TurnInfo | PendingCall, problem: Problem) -> Refusal:
    return Refusal(user_id=of.user_id, session_id=of.session_id, invocation_id=of.invocation_id, problem=problem)


_TURNS = "/v1/apps/{app}/turns"

OPERATIONS = [
    HttpOperation("POST", f"{_TURNS}/cancel", cancel_turns, body=OpenTurns, gives=BulkResult, users="any"),
    HttpOperation("POST", f"{_TURNS}/retry", retry_turns, body=WantedTurns, gives=BulkResult, users="any"),
    HttpOperation("POST", "/v1/apps/{app}/pending/answer", answer_all, body=AnswerAll, gives=BulkResult, users="any"),
]
"""What is done with many turns."""
