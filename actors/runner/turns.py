"""The turns of this Runner: what goes on with each, and the tasks that run, cancel and close them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from actors.actor import KeyedLocks
from actors.errors import ActorLostError, FencedError, PluginFailedError, RaygroveError, RequestError, StoreError
from actors.interfaces.telemetry import Telemetry
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.session import TurnKey
from actors.refs import SessionRef
from actors.rules.backoff import Backoff
from actors.runner.environment import RunnerPlace
from actors.runner.invoker import RunnerEvents, failed
from actors.runner.running_turn import BEFORE_RUN, RunningTurn, TurnSpans, TurnTask
from actors.runner.versions import TurnHooks, TurnVersions, VersionParts

logger = logging.getLogger(__name__)

CANCEL_RETRY_S = 0.1
"""A turn may enter the queue just after a cancel has looked there, so the cancel is retried after this long."""

BACKOFF = Backoff(first_s=1.0, longest_s=30.0)
"""How long to wait before the ends of turns that could not be stored are sent again."""

MakeSpans = Callable[[RunningTurn], TurnSpans]
"""Makes the spans of a turn that begins, or is taken up."""


class _Entry(msgspec.Struct, eq=False):
    """One turn, for as long as anything goes on with it.

    Attributes:
        closing: its task, while the end of the turn is on its way to the store.
        epochs: the newest in which it ran, by the generation of the log: one that was rewound may begin again under its id, with
            the first epoch.
        openings: how many requests open it; the same turn may be asked for several times at once.
        opened: done when no request opens it any more; None: nothing waits for that.
    """

    running: RunningTurn | None = None
    closing: TurnTask | None = None
    epochs: dict[str, int] = {}
    openings: int = 0
    opened: asyncio.Future[None] | None = None


class TurnTable:
    """The turns of this Runner that run, are about to, or are just ending.

    The Session actor may have opened a turn while the Runner still waits for the reply. Such a turn is in the table: it is not
    lost, so it must not be resumed, and a cancel has to wait for it. A restarted Session actor does not know that, and has it
    resumed for another request: then the reply that comes last must not replace the newer epoch, nor repeat what that has done.
    """

    def __init__(self) -> None:
        self._entries: dict[TurnKey, _Entry] = {}
        self._resuming: KeyedLocks[TurnKey] = KeyedLocks()
        self._emptied: asyncio.Event | None = None

    def __len__(self) -> int:
        """The number of turns that run."""
        return len(self.running())

    def __contains__(self, turn: TurnKey) -> bool:
        """True when the turn runs, is being opened or is being closed."""
        entry = self._entries.get(turn)
        return entry is not None and bool(entry.running or entry.openings or entry.closing)

    async def emptied(self, timeout_s: float) -> int:
        """Wait until nothing goes on with any turn, but at most so long. Returns with how many something does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._entries:
                    self._emptied = self._emptied or asyncio.Event()
                    await self._emptied.wait()
        return len(self._entries)

    def running(self) -> list[TurnKey]:
        """The turns that run."""
        return [turn for turn, entry in self._entries.items() if entry.running is not None]

    def get(self, turn: TurnKey) -> RunningTurn | None:
        """The turn, if it runs."""
        entry = self._entries.get(turn)
        return entry.running if entry is not None else None

    def add(self, running: RunningTurn) -> bool:
        """A turn is to run; it replaces the one that runs here in an older epoch.

        Returns:
            False when it runs here in this epoch or a newer one, or has ended since the request began that is to run it:
            nothing is added.
        """
        entry = self._entry(running.key)
        ref = running.ref
        if entry.epochs.get(ref.generation, 0) >= ref.epoch:
            return False
        if entry.running is not None:
            running.task.replace(entry.running.task)
        entry.running = running
        entry.epochs[ref.generation] = ref.epoch
        return True

    @contextmanager
    def closing(self, running: RunningTurn) -> Iterator[None]:
        """A turn runs no more, and inside the block it is being closed. If replaced, the newer one runs on."""
        entry = self._entry(running.key)
        if entry.running is running:
            entry.running = None
        entry.closing = running.task
        try:
            yield
        finally:
            # A newer epoch may be closed before the one that it has replaced, and with that all be over.
            if entry.closing is running.task:
                entry.closing = None
                self._drop(running.key, entry)

    def remove(self, running: RunningTurn) -> None:
        """A turn runs no more, and the store has its end. If replaced, the newer one runs on."""
        entry = self._entries.get(running.key)
        if entry is not None and entry.running is running:
            entry.running = None
            self._drop(running.key, entry)

    async def closed(self, turn: TurnKey) -> None:
        """Wait while the turn is being closed."""
        entry = self._entries.get(turn)
        if entry is not None and entry.closing is not None:
            await entry.closing.over()

    @contextmanager
    def opening(self, turn: TurnKey) -> Iterator[None]:
        """Inside the block a request opens the turn. A turn that is added there is never seen as absent."""
        entry = self._entry(turn)
        entry.openings += 1
        try:
            yield
        finally:
            entry.openings -= 1
            if not entry.openings and entry.opened is not None:
                entry.opened.set_result(None)
                entry.opened = None
            self._drop(turn, entry)

    def is_opening(self, turn: TurnKey) -> bool:
        """True while a request opens the turn."""
        entry = self._entries.get(turn)
        return entry is not None and bool(entry.openings)

    async def opened(self, turn: TurnKey, timeout_s: float) -> None:
        """Wait until no request opens the turn, but at most `timeout_s` seconds."""
        entry = self._entries.get(turn)
        if entry is not None and entry.openings:
            entry.opened = entry.opened or asyncio.get_running_loop().create_future()
            await asyncio.wait([entry.opened], timeout=timeout_s)

    @asynccontextmanager
    async def resuming(self, turn: TurnKey) -> AsyncIterator[None]:
        """Inside the block no other request resumes the turn."""
        entry = self._entry(turn)
        try:
            async with self._resuming.locked(turn):
                yield
        finally:
            self._drop(turn, entry)

    def is_resuming(self, turn: TurnKey) -> bool:
        """True while a request resumes the turn."""
        return self._resuming.is_held(turn)

    async def resumed(self, turn: TurnKey) -> None:
        """Wait until the requests that resume the turn now are over."""
        if self.is_resuming(turn):
            async with self.resuming(turn):
                pass

    def _entry(self, turn: TurnKey) -> _Entry:
        entry = self._entries.get(turn)
        if entry is None:
            entry = self._entries[turn] = _Entry()
        return entry

    def _drop(self, turn: TurnKey, entry: _Entry) -> None:
        is_idle = not (entry.openings or entry.running or entry.closing or self.is_resuming(turn))
        if is_idle and self._entries.get(turn) is entry:
            del self._entries[turn]
            if not self._entries and self._emptied is not None:
                self._emptied.set()
                self._emptied = None


class TurnTasks:
    """Launches and cancels turns.

    Attributes:
        on_fenced: called with a turn whose end was refused: it has ended, or another epoch of it runs.
    """

    def __init__(
        self,
        place: RunnerPlace,
        session: SessionRef,
        table: TurnTable,
        versions: TurnVersions,
        events: RunnerEvents,
        counts: Counter[str],
        telemetry: Telemetry,
        make_spans: MakeSpans | None = None,
    ) -> None:
        self._make_spans = make_spans
        self._place = place
        self._session = session
        self._closer = TurnCloser(session)
        self._table = table
        self._versions = versions
        self._events = events
        self._counts = counts
        self._telemetry = telemetry
        self._leaves = False
        self._left: set[TurnTask] = set()
        self._unstored_cancels: set[TurnKey] = set()
        self.on_fenced: Callable[[RunningTurn], None] = lambda _: None

    @property
    def unsaved(self) -> int:
        """The number of turns that have ended here, and whose ends are still to be stored."""
        return self._closer.unsaved

    def launch(self, turn: RunningTurn) -> None:
        """Run a turn that is open, in a task of its own; not if it is out of date: see TurnTable.add."""
        if self._leaves or not self._table.add(turn):
            return
        self._counts["turns"] += 1
        if self._make_spans is not None:
            turn.trace = self._make_spans(turn)
        turn.task.start(self._run(turn))

    async def version_of(self, ref: p.TurnRef, version: str) -> VersionParts:
        """The version of a turn that is open. Raises ClusterError when it cannot be loaded; the turn has failed then."""
        try:
            return await self._versions.load(version)
        except RaygroveError as error:
            await self._closer.close(ref, "", failed("", error))
            raise

    async def cancel_turn(self, message: p.CancelTurn) -> p.Ack:
        """Stop a turn that runs, waits in the queue, is being opened or was lost; returns when it is closed."""
        key = (message.key, message.invocation_id)
        while (turn := self._table.get(key)) is None:
            await self._table.closed(key)
            try:
                cancelled = await self._cancel_in_log(key)
            except StoreError:
                self._unstored_cancels.add(key)
                raise
            if isinstance(cancelled, p.AlreadyRunning):
                await self._table.resumed(key)
            elif key not in self._table:
                return p.Ack()
            await self._table.opened(key, CANCEL_RETRY_S)
        turn.task.cancel()
        await turn.task.over()
        # One that was given up here may go on in the log.
        return await self.cancel_turn(message) if turn.task.life.was_replaced else p.Ack()

    def take_cancel(self, key: TurnKey) -> bool:
        """True, once, when a cancel of a turn that ran nowhere could not be stored: programs may have heard that it has ended."""
        was_cancelled = key in self._unstored_cancels
        self._unstored_cancels.discard(key)
        return was_cancelled

    async def flush_end(self, key: TurnKey) -> None:
        """Wait until the Session actor knows of a turn that it has ended here, also one that was started again since."""
        await self._table.closed(key)
        await self._closer.flush_end(key)

    async def _cancel_in_log(self, key: TurnKey) -> p.Ack | p.AlreadyRunning:
        begins = key in self._table or self._table.is_resuming(key)
        asked = p.CancelTurn(key=key[0], invocation_id=key[1], runner=self._place.runner_id, begins=begins)
        return await self._place.ask_as_leader(self._session.of(key[0]), lambda: self._session.ask(asked))

    async def cancel_all(self) -> None:
        """Stop every turn that runs."""
        for key, invocation_id in self._table.running():
            await self.cancel_turn(p.CancelTurn(key=key, invocation_id=invocation_id))
        self._closer.stop()

    async def leave_all(self) -> None:
        """Stop what runs, and leave its turns open in the log, as if this Runner were lost."""
        self._leaves = True
        running = [turn.task for key in self._table.running() if (turn := self._table.get(key)) is not None]
        for task in running:
            if not task.life.has_decided:
                task.give_up()
        await asyncio.gather(*(task.over() for task in running))
        self._closer.stop()

    async def _run(self, turn: RunningTurn) -> None:
        version = self._versions.hold(turn.version)
        try:
            try:
                outcome = await self._outcome(version, turn)
            finally:
                if turn.release_slot is not None:
                    turn.release_slot()
            turn.task.decide_end()
            if not turn.runs.are_over():
                turn.runs.stop_waiting(lambda asked: True)
                if left := turn.runs.all():
                    await version.invoker.stop(turn, left)
            if turn.task in self._left or turn.task.life.was_replaced:
                self._table.remove(turn)
            elif isinstance(outcome, p.Finished) and outcome.closed:
                self._table.remove(turn)
                self._tell(turn, outcome)
            else:
                with self._table.closing(turn):
                    is_fenced = not await self._close(turn, outcome)
                if is_fenced:
                    self.on_fenced(turn)
        finally:
            self._versions.release(turn.version)
            turn.task.forget()

    async def _close(self, turn: RunningTurn, outcome: p.AnyOutcome) -> bool:
        """Returns False when the end is another Runner's to say, or was said."""
        if await self._closer.close(turn.ref, turn.agent, outcome):
            self._tell(turn, outcome)
            return True
        if turn.task.life.was_cancelled:
            # The cancel came just after its last event had closed it.
            finished = p.Finished(agent=turn.agent)
            self._tell(turn, finished, left=finished)
        return False

    def _tell(self, turn: RunningTurn, outcome: p.AnyOutcome, left: p.AnyOutcome | None = None) -> None:
        if turn.trace is not None:
            turn.trace.end_turn(turn.agent, outcome, left)
        self._telemetry.turn_took(turn.ref, max(0.0, now_s() - turn.message.event.timestamp), outcome)

    async def _outcome(self, version: VersionParts, turn: RunningTurn) -> p.AnyOutcome:
        """The outcome of the turn, whatever goes wrong in it."""
        if not turn.task.begin_run():
            return p.Cancelled(agent=turn.agent)
        try:
            await turn.task.is_alone()
            if turn.config.timeout is None:
                # No timer either: it asks for the loop and the task several times.
                return await self._with_hooks(version, turn)
            async with asyncio.timeout(turn.time_left_s):
                return await self._with_hooks(version, turn)
        except TimeoutError:
            return p.Cancelled(agent=turn.agent, timeout_s=turn.config.timeout)
        except asyncio.CancelledError:
            if not turn.task.life.has_decided and self._is_ending():
                self._left.add(turn.task)
            return p.Cancelled(agent=turn.agent)
        except RaygroveError as error:
            return failed(turn.agent, error)
        except Exception as error:
            # The border of the turn: its driver has to hear that it has ended, also after a defect.
            logger.exception("turn %s failed in the Runner", turn.ref.invocation_id)
            return failed(turn.agent, RaygroveError(f"the Runner failed: {type(error).__name__}: {error}"))

    @staticmethod
    def _is_ending() -> bool:
        """True in a task that is cancelled. With the local engine, a program that ends in the midst of closing ends the loop."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _with_hooks(self, version: VersionParts, turn: RunningTurn) -> p.AnyOutcome:
        """Run the turn's agents, with the hooks before and after them; tell the plugins if the turn fails."""
        hooks = version.hooks
        outcome: p.AnyOutcome
        try:
            if (hooks.has_begin_hooks or turn.has_begun) and await self._is_answered_by_hook(hooks, turn):
                outcome = p.Finished(agent=turn.agent)
            else:
                outcome = await version.dispatch.turn(turn)
            if hooks.has_end_hooks and isinstance(outcome, p.Finished) and not outcome.closed:
                event = await hooks.after_run(turn)
                if event is not None:
                    await self._events.append(turn, turn.agent, event)
        except (PluginFailedError, RequestError) as error:
            # RequestError: the event of a hook cannot be stored.
            outcome = await self._events.fail(turn, turn.agent, error)
        # By the class itself: for one that is not that of a struct `isinstance` asks its metaclass.
        if type(outcome) is p.Failed:
            await hooks.run_failed(turn, outcome)
        return outcome

    async def _is_answered_by_hook(self, hooks: TurnHooks, turn: RunningTurn) -> bool:
        """Call the hooks of the beginning, if that is not done; True when one of them has answered, so that no agent runs."""
        if turn.has_begun:
            return turn.is_answered_by_hook
        event = await hooks.before_run(turn)
        if event is None:
            return False
        # From here on neither the log nor the state is what it was when the turn was opened.
        turn.is_fresh = False
        has_answered = event.content is not None
        # A note, so that the agent does not take the event for one of its own when the turn is resumed.
        note = {BEFORE_RUN: "answered" if has_answered else "called"}
        actions = msgspec.structs.replace(event.actions, agent_state=note)
        await self._events.append(turn, turn.agent, msgspec.structs.replace(event, actions=actions))
        return has_answered


class TurnCloser:
    """Closes turns.

    The Session actor keeps an end that the store does not take, and stores it when the store is back. If it is lost before that,
    the turn would be open until the next message of its session, and run again then, although its driver was told how it
    ended. So the Runner keeps such ends, too, and sends them again.
    """

    def __init__(self, session: SessionRef) -> None:
        self._session = session
        self._unsaved: dict[TurnKey, p.CloseTurn] = {}
        self._sender: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def unsaved(self) -> int:
        """The number of ends that are still to be stored."""
        return len(self._unsaved)

    async def close(self, turn: p.TurnRef, agent: str, outcome: p.AnyOutcome) -> bool:
        """Store how a turn has ended, now or later. Returns False when that is another Runner's to say."""
        message = p.CloseTurn(turn=turn, agent=agent, outcome=outcome)
        try:
            return await self._send(message)
        except (StoreError, ActorLostError) as error:
            if self._is_stopped:
                # Of a turn that has begun while the others were being cancelled.
                logger.error("the record of turn %s was not written, and the turn is open: %s", turn.invocation_id, error)
                return True
            logger.error("the record of turn %s will be written when that is possible: %s", turn.invocation_id, error)
            self._unsaved[turn.key, turn.invocation_id] = message
            if self._sender is None or self._sender.done():
                self._sender = asyncio.create_task(self._send_again())
        return True

    async def _send_again(self) -> None:
        failed = 1
        while self._unsaved:
            await asyncio.sleep(BACKOFF.after_attempts(failed))
            for turn in list(self._unsaved):
                await self.flush_end(turn)
                if turn in self._unsaved:
                    failed += 1
                    # Behind the others: those of another Session actor may be stored by now.
                    self._unsaved[turn] = self._unsaved.pop(turn)
                    break

    async def flush_end(self, turn: TurnKey) -> None:
        """Send the end of a turn now, if it is still to be stored: then the Session actor knows of it, unless it is away."""
        message = self._unsaved.get(turn)
        if message is None:
            return
        with suppress(StoreError, ActorLostError):
            await self._send(message)
            if self._unsaved.get(turn) is message:
                del self._unsaved[turn]

    async def _send(self, message: p.CloseTurn) -> bool:
        """Returns False if the turn is another Runner's, or over. Raises StoreError, ActorLostError: send it again."""
        try:
            await self._session.ask(message)
        except FencedError:
            return False
        except (StoreError, ActorLostError):
            raise
        except RaygroveError as error:
            logger.error("the record of turn %s could not be written: %s", message.turn.invocation_id, error)
        return True

    def stop(self) -> None:
        """Send nothing again from now on. The Session actor tries once more when it stops itself."""
        self._is_stopped = True
        if self._sender is not None:
            self._sender.cancel()
