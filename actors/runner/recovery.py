"""How turns go on whose Runner was lost, or that a restarted Session actor does not know to be running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

from actors.errors import RaygroveError, StoreError
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.flow import CONTROLLER
from actors.messages.session import SessionKey, TurnKey
from actors.refs import SessionRef
from actors.rules.backoff import Backoff
from actors.runner.admission import TurnAdmission
from actors.runner.environment import RunnerPlace
from actors.runner.running_turn import OpeningMessage, RunningTurn
from actors.runner.turns import TurnTable, TurnTasks
from actors.runner.versions import TurnVersions

logger = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN = Backoff(0.1, 1.0)
"""Times between two attempts to recover the turns of a Runner that had this one's place."""

AT_ONCE = 64
"""Turns that are taken up at the same time: the store writes what comes together in one transaction."""

OPENING_S = 5.0
"""A request that takes longer to open a turn which was lost is not waited for."""


class TurnResumer:
    """Resumes turns that are open in the log.

    Args:
        app: the app whose open turns are recovered after this Runner's process was lost.
        admission: knows whether turns are resumed that this deployment has not run.
        is_restarted: this Runner is in the place of one that was lost, and has its turns to recover.
    """

    def __init__(
        self,
        place: RunnerPlace,
        app: str,
        session: SessionRef,
        versions: TurnVersions,
        table: TurnTable,
        tasks: TurnTasks,
        admission: TurnAdmission,
        *,
        is_restarted: bool,
    ) -> None:
        self._place = place
        self._app = app
        self._session = session
        self._versions = versions
        self._table = table
        self._tasks = tasks
        self._admission = admission
        self._recovered: set[SessionRef] = set()
        self._has_recovered = asyncio.Event()
        if not is_restarted:
            self._has_recovered.set()
        self._recovering: dict[SessionRef, asyncio.Task[None]] = {}
        # Turns that are resumed, with others of their sessions, once their Session actor and the store can be asked; None: all.
        self._due: dict[SessionRef, set[TurnKey] | None] = {}
        place.on_announced = self._recover_again
        tasks.on_fenced = self._take_back_soon
        self._taking_back: set[asyncio.Task[None]] = set()
        # No other Session actor has a turn of this Runner.
        self._sessions = session.sharing(place.shard)

    async def prepare(self) -> None:
        """Load the tree, and connect to this shard's Session actors: whatever fails is tried again when turns are resumed."""
        await self._versions.load()
        asked = (session.ask(p.GetStatistics()) for session in self._sessions)
        await asyncio.gather(*asked, return_exceptions=True)

    async def recover_turns(self, _: p.RecoverTurns) -> p.Ack:
        """Resume the turns that this Runner ran when its process was lost."""
        await self._versions.load()
        # Ask the shards independently: one that is down must not delay turns held by the others.
        await asyncio.gather(*(self._recover_from(session) for session in self._sessions))
        self._has_recovered.set()
        return p.Ack()

    @property
    def has_recovered(self) -> bool:
        """False until the turns of a Runner that was lost run here."""
        return self._has_recovered.is_set()

    async def recovered(self) -> None:
        """Wait until the turns of a Runner that was lost run here."""
        await self._has_recovered.wait()

    async def resume_turns(self, _: p.ResumeTurns) -> p.Ack:
        """Resume the turns that an earlier deployment has left open. Raises OverloadedError when they are left to a later one."""
        refusal = await self._admission.refusal(SessionKey(self._app, "", ""))
        if refusal is not None:
            raise refusal
        await self._versions.load()
        await asyncio.gather(*(self._recover_from(session) for session in self._sessions))
        return p.Ack()

    async def _recover_from(self, session: SessionRef, only: Collection[TurnKey] | None = None) -> None:
        """Resume this Runner's turns that are open at one Session actor; with `only` these, and others of their sessions."""
        turns = {*await self._open_turns(session)}
        if only is not None:
            keys = {key for key, _ in only}
            # One that was opened by a request whose reply was lost runs here, for all that the Session actor knows.
            turns = {*only, *(turn for turn in turns if turn[0] in keys)}
        self._recovered.add(session)
        # Those that are being opened come last, since they may take longer.
        await self._take_up_all(sorted(turns, key=lambda turn: (self._table.is_opening(turn), turn)))

    async def _open_turns(self, session: SessionRef) -> Sequence[TurnKey]:
        """Those of this Runner's turns that are open at one Session actor."""
        place = self._place
        message = p.ListOpenTurns(app=self._app, runner=place.runner_id, term=place.term, shard=place.shard)
        return (await place.ask_as_leader(session, lambda: session.ask(message))).turns

    def _recover_again(self, session: SessionRef) -> None:
        """Another Runner has had this one's place since its turns were recovered, such as one that was thought to be lost."""
        if session in self._recovered:
            self._recover_soon(session, None)

    def resume_later(self, turn: TurnKey) -> None:
        """Resume a turn, and others of its session, once the store can be asked: a failed request may have left them open."""
        self._recover_soon(self._session.of(turn[0]), {turn})

    def _take_back_soon(self, turn: RunningTurn) -> None:
        task = asyncio.create_task(self._take_back(turn))
        self._taking_back.add(task)
        task.add_done_callback(self._taking_back.discard)

    async def _take_back(self, turn: RunningTurn) -> None:
        """Go on with a turn that this Runner has in a later epoch without knowing: a request that it has sent twice came late.

        One that another Runner has, or that has ended, stays as it is.
        """
        key, place = (turn.ref.key, turn.ref.invocation_id), self._place
        with suppress(RaygroveError):
            if turn.task.life.was_cancelled:
                await self._session.ask(p.CancelTurn(key=key[0], invocation_id=key[1], runner=place.runner_id))
                return
            async with self._table.resuming(key):
                if self._table.get(key) is None:
                    message = p.ResumeTurn(key=key[0], invocation_id=key[1], runner=place.runner_id, term=place.term)
                    reply = await self._session.ask(message)
                    if isinstance(reply, p.TurnResumed):
                        await self.run(key, reply)

    async def _ask_as_leader(self, turn: TurnKey, ask: Callable[[], Awaitable[T | p.NotLeader]]) -> T:
        """The reply to a request that takes a turn up. One that the store has failed is resumed later."""
        try:
            return await self._place.ask_as_leader(self._session.of(turn[0]), ask)
        except StoreError:
            self.resume_later(turn)
            raise

    def _recover_soon(self, session: SessionRef, only: set[TurnKey] | None) -> None:
        self._add_due(session, only)
        if session not in self._recovering:
            self._recovering[session] = asyncio.create_task(self._recover_surely(session))

    def _add_due(self, session: SessionRef, only: set[TurnKey] | None) -> None:
        due = self._due.get(session, set())
        self._due[session] = None if due is None or only is None else due | only

    async def _recover_surely(self, session: SessionRef) -> None:
        try:
            for attempt in count(1):
                only = self._due.pop(session)
                try:
                    await self._recover_from(session, only)
                except RaygroveError as error:
                    logger.warning("turns that are open could not be resumed, and are tried again: %s", error)
                    self._add_due(session, only)
                    await asyncio.sleep(AGAIN.after_attempts(attempt))
                else:
                    if session not in self._due:
                        return
        finally:
            del self._recovering[session]

    async def leave(self) -> None:
        """Resume no more turns."""
        recovering = list(self._recovering.values())
        for task in recovering:
            task.cancel()
        await asyncio.gather(*recovering, return_exceptions=True)

    async def take_up_open(self, session: SessionRef, which: Callable[[str], bool]) -> None:
        """Resume turns that are open at one Session actor, such as those of a deployment that is gone.

        Args:
            which: chooses them, by their invocation ids.

        Raises StoreError, ClusterError.
        """
        await self._versions.load()
        await self._take_up_all([turn for turn in await self._open_turns(session) if which(turn[1])])

    async def _take_up_all(self, turns: Sequence[TurnKey]) -> None:
        """Take up turns, a few at a time. Raises the first error, after all others were taken up as well."""
        left = iter(turns)

        async def take_up_next() -> None:
            for turn in left:
                await self.take_up(turn)

        workers = (take_up_next() for _ in range(min(AT_ONCE, len(turns))))
        ends = await asyncio.gather(*workers, return_exceptions=True)
        if errors := [end for end in ends if end is not None]:
            raise errors[0]

    async def recover_turn(self, message: p.RecoverTurn) -> p.Ack:
        """See that a turn runs, if it has not ended. Raises OverloadedError: see `resume`."""
        await self._versions.load()
        key = (message.key, message.invocation_id)
        if not self._table.is_opening(key):
            await self.resume(key)
        return p.Ack()

    async def take_up(self, turn: TurnKey) -> None:
        """See that a turn runs that is open in the log."""
        # A request that is sent again may be about to run it: resumed as well, its agents would do everything twice.
        await self._table.opened(turn, OPENING_S)
        await self._resume(turn)

    async def resume(self, key: TurnKey) -> None:
        """Run a turn that is open in the log, because a driver has asked for it.

        Raises:
            OverloadedError: no new turn may begin, and an earlier deployment has left this one: a later one resumes it.
        """
        if self._table.get(key) is None and (refusal := await self._admission.refusal(key[0])) is not None:
            await self.recovered()
            if self._table.get(key) is None:
                raise refusal
        await self._resume(key)

    async def _resume(self, key: TurnKey) -> None:
        """Run a turn that is open in the log. Tell the Session actor so if it runs here already."""
        # A Session actor that was started again does not know that it has ended here.
        await self._tasks.flush_end(key)
        running = self._table.get(key)
        async with self._table.resuming(key):
            if running is None and self._table.get(key) is not None:
                # Another request has resumed it meanwhile.
                return
            running_ref = running.ref if running is not None else None
            place = self._place
            message = p.ResumeTurn(key=key[0], invocation_id=key[1], runner=place.runner_id, term=place.term, running=running_ref)
            reply = await self._ask_as_leader(key, lambda: self._session.ask(message))
            was_cancelled = self._tasks.take_cancel(key)
            if isinstance(reply, p.TurnResumed):
                turn = await self.run(key, reply)
                if was_cancelled:
                    turn.task.cancel()

    async def run_again(
        self, key: TurnKey, ask: Callable[[p.TurnRef | None], Awaitable[p.ResumeTurnReply]]
    ) -> RunningTurn | None:
        """Run a turn on that has ended, if the Session actor gives it to this Runner. One that runs already goes on.

        Args:
            ask: asks the Session actor for it, with the turn if it runs here.

        Returns:
            The turn; None: it has ended meanwhile.

        Raises:
            DrainingError: the deployment is about to be stopped.
        """
        await self._versions.load()
        if self._table.get(key) is None and (refusal := await self._admission.refusal(key[0])) is not None:
            raise refusal
        await self._tasks.flush_end(key)
        async with self._table.resuming(key):
            running = self._table.get(key)
            running_ref = running.ref if running is not None else None
            reply = await self._ask_as_leader(key, lambda: ask(running_ref))
            self._tasks.take_cancel(key)
            return await self.run(key, reply) if isinstance(reply, p.TurnResumed) else running

    async def run(self, key: TurnKey, resumed: p.TurnResumed) -> RunningTurn:
        """Launch a turn with the epoch that this Runner was given for it.

        Raises:
            ClusterError: the version of the tree that it began with cannot be loaded. The turn has failed then.
        """
        ref = p.TurnRef(*key, resumed.epoch, generation=resumed.generation)
        routing = (await self._tasks.version_of(ref, resumed.version)).routing
        event = decode_event(resumed.event, resumed.seq)
        is_flow = event.flow is not None or CONTROLLER in resumed.progress.agent_states
        turn = RunningTurn(
            ref,
            CONTROLLER if is_flow else routing.select(resumed.authors, resumed.caller, resumed.config.agent),
            OpeningMessage(event, p.StoredEvent(resumed.seq, resumed.event), resumed.config),
            resumed.progress,
            is_answer=bool(resumed.caller),
            is_taken_up=True,
            traceparent=resumed.traceparent,
            version=resumed.version,
        )
        turn.callers = routing.waiting_callers(resumed.progress, resumed.config.agent)
        turn.waiting = routing.waiting_calls(resumed.progress)
        turn.calls.count_stored(routing.llm_calls(resumed.progress))
        self._tasks.launch(turn)
        return turn
