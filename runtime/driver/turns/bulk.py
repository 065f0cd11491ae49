"""Many turns at once: all that fit a query are cancelled, run on, or have their calls answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from actors.errors import InvocationNotFoundError, RaygroveError, RequestError, TurnStateError
from actors.layers.listing.client import get_turn
from actors.layers.listing.messages import PendingCall
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.event import new_invocation_id
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from runtime.driver.arguments import RunOptions, checked_choice, checked_number
from runtime.driver.turns.finding import CallQuery, TurnQuery, calls_by_turn, found_calls, found_turns
from runtime.driver.turns.reports import events_of
from runtime.driver.turns.turn import Turn
from runtime.driver.waits import M, RuntimeService, waits

AT_ONCE = 16
"""Sessions whose turns are worked on at the same time."""

ALL = 1_000_000
"""Turns that are acted on at most where no limit is given."""

OPEN = ("waiting", "running", "paused")
"""The states of turns that have not ended, those in line first: one would begin when the turn before it is cancelled."""

CANCELLED = {"error": "cancelled"}
"""The response of a call that had none when its turn was cancelled."""

Calls = Sequence[PendingCall]
"""Calls that wait, in one turn."""

T = TypeVar("T", bound=TurnInfo | Calls)
G = TypeVar("G")

Response = object | Callable[[PendingCall], object]
"""An answer to each of many calls, or a function that makes it of the call."""


class BulkStep(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One turn of many, and what became of it.

    Attributes:
        of: the turn as it was before; of `answer_all` its calls.
        error: why it could not be done; None: it is done, or would be.
        sealed_calls: of a turn that was cancelled, how many calls got an answer by that, `{"error": "cancelled"}`.
    """

    of: T
    error: RaygroveError | None = None
    sealed_calls: int = 0


class BulkReport(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Many turns, and what became of each.

    Attributes:
        steps: the turns, in the order in which they were found.
        more: further ones fit: the same call goes on with them.
        dry_run: nothing was done.
    """

    steps: Sequence[BulkStep[T]]
    more: bool = False
    dry_run: bool = False

    @property
    def done(self) -> list[T]:
        """The turns with which it is done, as they were before; with `dry_run` all that were found."""
        return [step.of for step in self.steps if step.error is None]

    @property
    def refused(self) -> list[tuple[T, RaygroveError]]:
        """The turns with which it could not be done, each with the error that says why."""
        return [(step.of, step.error) for step in self.steps if step.error is not None]


class BulkTurns(RuntimeService[M]):
    """Acting on many turns, as a part of the turns service.

    Turns of up to sixteen sessions are worked on at a time; those of one session one after the other, in the order in which they
    were found. What is done stays done when a call is interrupted: the same call goes on with the rest.
    """

    _answer: Callable[..., Turn]

    @waits
    async def cancel_all(
        self, which: TurnQuery | Sequence[TurnInfo], *, limit: int | None = None, dry_run: bool = False
    ) -> BulkReport[TurnInfo]:
        """Cancel all turns that have not ended and fit, and wait until their logs are sealed: see Turn.cancel.

        Args:
            which: a query, whose state is one of those that have not ended; or turns of a list.
            limit: at most so many; None: all.
            dry_run: only find them.

        Returns:
            The turns, and what became of each. A turn that has ended meanwhile has a TurnStateError.

        Raises:
            RequestError, InvalidIdError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        return await self._each(await self._found(which, OPEN, limit), self._cancel, limit, dry_run=dry_run)

    @waits
    async def retry_all(
        self, which: TurnQuery | Sequence[TurnInfo], *, limit: int | None = None, dry_run: bool = False
    ) -> BulkReport[TurnInfo]:
        """Run all failed turns that fit on from their last stored steps: see Runtime.retry. It waits until they run.

        Args:
            which, limit, dry_run: see `cancel_all`.

        Returns:
            The turns, and what became of each. See Runtime.retry for why one may not run on.

        Raises:
            RequestError, InvalidIdError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        return await self._each(await self._found(which, ("failed",), limit), self._retry, limit, dry_run=dry_run)

    @waits
    async def answer_all(
        self,
        which: CallQuery | Sequence[PendingCall],
        response: Response,
        *,
        run_config: RunOptions | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> BulkReport[Calls]:
        """Answer all calls that wait and fit, those of a turn in one message. It waits until their turns go on.

        Args:
            which: a query, or calls of a list.
            response: the answer to each, as Runtime.answer takes it in a mapping: True or False for those that need confirmation,
                else the result. Or a function that makes it of the call.
            run_config: options of the turns from now on.
            limit: calls of at most so many turns; None: all.
            dry_run: only find them.

        Returns:
            The calls of each turn, and what became of it. See Runtime.answer for why one may not go on.

        Raises:
            RequestError, InvalidIdError: an argument is wrong.
            SessionNotFoundError: there is no such session.
            StoreError: the store cannot be read.
        """

        async def answer(calls: Calls) -> int:
            given = {call.call_id: response(call) if callable(response) else response for call in calls}
            user_id, session_id = calls[0].user_id, calls[0].session_id
            turn = self._answer(given, user_id=user_id, session_id=session_id, run_config=run_config, on_leave="continue")
            await turn.aio.started()
            turn.detach()
            return 0

        if isinstance(which, CallQuery):
            found = await found_calls(self._client, which, _most(limit) + 1)
        else:
            found = calls_by_turn(_listed(which, PendingCall, CallQuery))
        return await self._each(found, answer, limit, dry_run=dry_run)

    async def _found(
        self, which: TurnQuery | Sequence[TurnInfo], states: tuple[str, ...], limit: int | None
    ) -> Sequence[TurnInfo]:
        """The turns that fit, one more than are wanted if there are so many."""
        if not isinstance(which, TurnQuery):
            return _listed(which, TurnInfo, TurnQuery)
        wanted = states if which.state is None else (checked_choice("state", which.state, states),)
        most = _most(limit) + 1
        found: list[TurnInfo] = []
        for state in wanted:
            found += await found_turns(self._client, msgspec.structs.replace(which, state=state), most - len(found))
        return found

    async def _each(
        self, found: Sequence[T], act: Callable[[T], Awaitable[int]], limit: int | None, *, dry_run: bool
    ) -> BulkReport[T]:
        """Act on each, or on none. `act` returns how many calls were sealed."""
        chosen = found[: _most(limit)]
        more = len(found) > len(chosen)
        if dry_run:
            return BulkReport(steps=[BulkStep(of=each) for each in chosen], more=more, dry_run=True)
        by_session: dict[Hashable, list[int]] = {}
        for number, each in enumerate(chosen):
            by_session.setdefault(_session(each), []).append(number)
        steps: dict[int, BulkStep[T]] = {}
        free = asyncio.Semaphore(AT_ONCE)

        async def in_order(numbers: Iterable[int]) -> None:
            async with free:
                for number in numbers:
                    steps[number] = await _step(act, chosen[number])

        async with asyncio.TaskGroup() as group:
            for numbers in by_session.values():
                group.create_task(in_order(numbers))
        return BulkReport(steps=[steps[number] for number in range(len(chosen))], more=more)

    async def _cancel(self, turn: TurnInfo) -> int:
        key = self._key(turn)
        await self._client.engine.runner.ask(p.CancelTurn(key=key, invocation_id=turn.invocation_id))
        try:
            now = await get_turn(self._client.session, key, turn.invocation_id)
        except InvocationNotFoundError:
            # It waited in line, and is gone.
            return 0
        if now.state != "cancelled":
            raise TurnStateError(f"it has ended already: it is {now.state}")
        sealed = msgspec.structs.replace(now, first_seq=max(now.first_seq, turn.last_seq + 1))
        events = events_of(self._client.session, key, sealed)
        return sum([each.response == CANCELLED async for event in events for each in event.function_responses()])

    async def _retry(self, turn: TurnInfo) -> int:
        message = RetryTurn(key=self._key(turn), invocation_id=turn.invocation_id, request=new_invocation_id())
        await self._client.engine.runner.ask(message)
        return 0

    def _key(self, turn: TurnInfo) -> SessionKey:
        return SessionKey(self._client.app_name, turn.user_id, turn.session_id)


async def _step(act: Callable[[T], Awaitable[int]], each: T) -> BulkStep[T]:
    try:
        return BulkStep(of=each, sealed_calls=await act(each))
    except RaygroveError as error:
        return BulkStep(of=each, error=error)


def _session(of: TurnInfo | Calls) -> Hashable:
    named = of if isinstance(of, TurnInfo) else of[0]
    return named.user_id, named.session_id


def _listed(which: object, kind: type[G], query: type[object]) -> Sequence[G]:
    """The turns or calls that are given in place of a query. Raises RequestError."""
    if not isinstance(which, Sequence) or not all(isinstance(each, kind) for each in which):
        raise RequestError(f"give a {query.__name__}, or each {kind.__name__} of a list, not {type(which).__name__}")
    return which


def _most(limit: int | None) -> int:
    return checked_number("limit", limit) if limit is not None else ALL
