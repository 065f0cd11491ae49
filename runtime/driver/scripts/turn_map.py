"""Turns over many inputs, a limited number at once: `for result in rt.map(…)` or `async for result in rt.map(…)`.

An attempt that failed is followed by another where that is worth it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from actors.errors import (
    ActorLostError,
    AgentFailedError,
    DefinitionError,
    OverloadedError,
    PluginFailedError,
    RaygroveError,
    RequestError,
    RuntimeClosedError,
    TurnCancelledError,
    TurnError,
)
from actors.layers.stores.batch import BatchItem
from actors.messages.content import Content
from actors.messages.event import Event, now_s
from actors.messages.protocol.runs import Paused
from actors.messages.shown import shown
from actors.rules.backoff import Backoff
from runtime.driver.arguments import checked_number
from runtime.driver.engine_client import TICK_S, EngineClient, LoopCall
from runtime.driver.scripts.inputs import InputReader, MapInput, MapResult
from runtime.driver.scripts.progress import Counts, Display, display
from runtime.driver.scripts.questions import Asking
from runtime.driver.services.batches import BatchRecorder
from runtime.driver.turns.turn import OnLeave, Turn

HELD = 10
"""Results that a map in order holds back at most, for each of its `concurrency`."""


class Window:
    """The inputs that have begun, and the results that were not given to the program yet.

    Args:
        concurrency: how many inputs are under way at most.
        in_order: give results in the order of the inputs.
    """

    def __init__(self, concurrency: int, *, in_order: bool) -> None:
        self._concurrency = concurrency
        self._in_order = in_order
        self._under_way = 0
        self._held: dict[int, MapResult] = {}
        self._begun = 0
        self._given = 0

    @property
    def is_empty(self) -> bool:
        """True when nothing is under way, and so no result is held back."""
        return not self._under_way

    def has_room(self) -> bool:
        """True when another input may begin."""
        return self._under_way < self._concurrency and len(self._held) < HELD * self._concurrency

    def begin_input(self) -> int:
        """Begin the next input. Returns its position."""
        self._under_way += 1
        self._begun += 1
        return self._begun - 1

    def end_input(self, result: MapResult) -> list[MapResult]:
        """End an input. Returns the results whose turn it is now."""
        self._under_way -= 1
        if not self._in_order:
            return [result]
        self._held[result.index] = result
        ready = []
        while self._given in self._held:
            ready.append(self._held.pop(self._given))
            self._given += 1
        return ready


Inputs = Iterable[Any] | AsyncIterable[Any]

Answer = LoopCall[MapResult] | MapResult
"""Of an input that runs turns, or of one that could not be read."""


@dataclass(frozen=True)
class MapOptions:
    """How a map is run: see Runtime.map."""

    name: str
    user_id: str
    concurrency: int
    in_order: bool
    progress: bool | None
    total: int | None


def _check_several(inputs: object) -> None:
    """Check that there are inputs to go through, and not one text, whose letters would be a turn each. Raises RequestError."""
    if isinstance(inputs, str | bytes | bytearray):
        raise RequestError(f"a map takes several inputs, not one text: write [{shown(inputs)}]")
    if isinstance(inputs, Mapping | Content):
        raise RequestError(f"a map takes several inputs, not one {type(inputs).__name__}: put it into a list")
    if not isinstance(inputs, Iterable | AsyncIterable):
        raise RequestError(f"a map takes an iterable or async iterable of inputs, not {shown(inputs)}")


class TurnMap:
    """The results of a map. Nothing runs before it is iterated.

    Inputs are read as places become free, in the thread or on the event loop of the program. Iterating it again reads them again,
    and finds the turns that are there.
    """

    def __init__(self, client: EngineClient, answering: Answering, inputs: Inputs, options: MapOptions) -> None:
        _check_several(inputs)
        self._client = client
        self._answering = answering
        self._inputs = inputs
        self._options = options

    def __repr__(self) -> str:
        return f"TurnMap(name={self._options.name!r}, concurrency={self._options.concurrency})"

    def __iter__(self) -> Iterator[MapResult]:
        if not isinstance(self._inputs, Iterable):
            raise RequestError("the inputs are an async iterable: iterate the map with `async for`")
        ended: SimpleQueue[Answer] = SimpleQueue()
        run = _MapRun(self._client, self._answering, self._options, self._counts(), ended.put)
        with run.running():
            inputs, is_exhausted = iter(self._inputs), False
            while True:
                if not is_exhausted and run.window.has_room():
                    try:
                        given = next(inputs)
                    except StopIteration:
                        is_exhausted = True
                    else:
                        run.begin_input(given)
                if is_exhausted and run.window.is_empty:
                    break
                try:
                    # While there is room for another input, results are only taken when they are there.
                    answer = ended.get(block=is_exhausted or not run.window.has_room(), timeout=TICK_S)
                except Empty:
                    continue
                yield from run.end_input(answer)
            run.recorder.finish()

    async def __aiter__(self) -> AsyncIterator[MapResult]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Queue[Answer | None] = asyncio.Queue()

        def put(answer: Answer) -> None:
            loop.call_soon_threadsafe(ended.put_nowait, answer)

        run = _MapRun(self._client, self._answering, self._options, self._counts(), put)
        has_room = asyncio.Event()
        reading = asyncio.create_task(self._read(run, has_room))
        # An entry that is no answer says that no input follows.
        reading.add_done_callback(lambda _: ended.put_nowait(None))
        try:
            with run.running():
                while not (reading.done() and run.window.is_empty):
                    answer = await ended.get()
                    if answer is None:
                        reading.result()
                        continue
                    ready = run.end_input(answer)
                    has_room.set()
                    for result in ready:
                        yield result
                await run.recorder.finish_async()
        finally:
            reading.cancel()

    async def _read(self, run: _MapRun, has_room: asyncio.Event) -> None:
        """Begin inputs as there is room."""
        inputs = _as_async(self._inputs)
        while True:
            while not run.window.has_room():
                has_room.clear()
                await has_room.wait()
            try:
                given = await anext(inputs)
            except StopAsyncIteration:
                return
            run.begin_input(given)

    def _counts(self) -> Counts:
        total = self._options.total
        if total is None and isinstance(self._inputs, Sized):
            total = len(self._inputs)
        return Counts(self._options.name, total)


async def _as_async(inputs: Inputs) -> AsyncIterator[Any]:
    if isinstance(inputs, AsyncIterable):
        async for given in inputs:
            yield given
    else:
        for given in inputs:
            yield given


class _MapRun:
    """One iteration of a map.

    Args:
        put: takes each answer as it comes, on any thread.
    """

    def __init__(
        self, client: EngineClient, answering: Answering, options: MapOptions, counts: Counts, put: Callable[[Answer], None]
    ) -> None:
        self._client = client
        self._answering = answering
        self._options = options
        self._counts = counts
        self._put = put
        self._reader = InputReader(options.name, options.user_id)
        self._under_way: set[LoopCall[MapResult]] = set()
        self._display: Display | None = None
        self.window = Window(options.concurrency, in_order=options.in_order)
        self.recorder = BatchRecorder(client, "map", options.name, counts.total)

    def begin_input(self, given: object) -> None:
        """Begin an input. Raises RuntimeClosedError."""
        index = self.window.begin_input()
        try:
            read = self._reader.read(index, given)
        except RaygroveError as error:
            self._put(MapResult(index=index, input=given, error=error))
        else:
            self._under_way.add(self._client.begin_call(self._answering.answer(read), self._put))

    def end_input(self, answer: Answer) -> list[MapResult]:
        """End an input. Returns the results whose turn it is. Raises what ends the map."""
        if isinstance(answer, MapResult):
            result = answer
        else:
            self._under_way.discard(answer)
            try:
                result = answer.result()
            except CancelledError:
                # The Runtime was closed while the input waited for its next attempt.
                raise self._client.not_open() from None
        ready = self.window.end_input(result)
        self._counts.done += 1
        self._counts.failed += result.error is not None
        self._counts.repeated += result.is_repeated
        self._record(result)
        if self._display is not None:
            self._display.update(self._counts)
        return ready

    def _record(self, result: MapResult) -> None:
        item = None
        if result.error is not None:
            item = BatchItem(
                position=0,
                name=_text_of(result.input),
                user_id=result.user_id,
                session_id=result.session_id,
                invocation_id=result.invocation_id,
                at_s=now_s(),
                error=f"{type(result.error).__name__}: {result.error}",
            )
        counts = self._counts
        self.recorder.note(done=counts.done, failed=counts.failed, repeated=counts.repeated, item=item)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress, and leave the turns under way when the block is left before its end."""
        self._display = display(self._options.progress, self._counts)
        self.recorder.begin()
        try:
            yield
        except BaseException as error:
            # A Ctrl-C that comes while the program is busy with a result is raised there, and only closes the iterator here.
            is_left = isinstance(error, KeyboardInterrupt | asyncio.CancelledError | GeneratorExit)
            self._leave(says_how_to_go_on=self._options.progress is not False and (is_left or self._display is not None))
            raise
        if self._display is not None:
            self._display.end_display(self._counts)

    def _leave(self, *, says_how_to_go_on: bool) -> None:
        for call in self._under_way:
            call.cancel()
        self.recorder.leave()
        if self._display is not None:
            self._display.end_display(self._counts)
        if says_how_to_go_on:
            name, done = self._options.name, self._counts.done
            inputs = "1 input is" if done == 1 else f"{done:,} inputs are"
            said = f"{name}: stopped, {inputs} done. The same program goes on from here: name={name!r}"
            print(said, file=sys.stderr, flush=True)


def _text_of(given: object) -> str:
    """The text of an input, also of one that could not be read."""
    said = given["message"] if isinstance(given, Mapping) and "message" in given else given
    if isinstance(said, Content):
        return said.text
    return said if isinstance(said, str) else shown(said)


StartAttempt = Callable[[MapInput, str, str], Turn]
"""Starts a turn for an input, with the ids of its session and of itself."""


@dataclass(frozen=True)
class Answering:
    """Answers inputs. Its coroutine runs on the portal's loop.

    An attempt that failed, or was cancelled, in an earlier run is no attempt of this one: the next follows at once.

    Attributes:
        retries: which failures are worth another attempt.
        on_leave: what becomes of the turn when the map is left.
    """

    start: StartAttempt
    question: Asking
    retries: Retries
    on_leave: OnLeave

    async def answer(self, given: MapInput) -> MapResult:
        """Have an input answered. Raises RuntimeClosedError or ActorLostError when the deployment is gone."""
        began_s = time.monotonic()
        attempt, failed = 0, 0
        while True:
            attempt += 1
            result = await self._attempt(given, attempt)
            error = result.error
            if error is not None and ends_map(error):
                raise error
            if error is None or (not result.is_repeated and failed >= self.retries.of(error)):
                return msgspec.structs.replace(result, duration_s=time.monotonic() - began_s)
            if not result.is_repeated:
                failed += 1
                await asyncio.sleep(BACKOFF.after_attempts(failed))

    async def _attempt(self, given: MapInput, attempt: int) -> MapResult:
        """One attempt. It waits for as long as the deployment has more to do than it may."""
        while True:
            result = await self._turn(given, attempt)
            if not isinstance(result.error, OverloadedError):
                return result
            await asyncio.sleep(result.error.retry_after_s)

    async def _turn(self, given: MapInput, attempt: int) -> MapResult:
        session_id, invocation_id = given.ids(attempt)
        base = MapResult(
            index=given.index,
            input=given.given,
            user_id=given.user_id,
            session_id=session_id,
            invocation_id=invocation_id,
            attempts=attempt,
            state_delta=given.state_delta,
        )
        turn: Turn | None = None
        try:
            try:
                turn = self.start(given, session_id, invocation_id)
                result = await turn
                output = None if isinstance(result.outcome, Paused) else self.question.read(result)
                ended = {"result": result, "output": output, "events": result.events}
            except RaygroveError as error:
                ended = {"error": error, "events": await _events(turn) if turn is not None else ()}
            is_repeated = turn is not None and await turn.aio.is_repeated()
        except asyncio.CancelledError:
            if turn is not None:
                self._leave(turn)
            raise
        return msgspec.structs.replace(base, is_repeated=is_repeated, **ended)

    def _leave(self, turn: Turn) -> None:
        if self.on_leave == "cancel":
            turn.cancel()
        else:
            turn.detach()


async def _events(turn: Turn) -> Sequence[Event]:
    """The complete events of a turn that has failed."""
    events = []
    try:
        async for event in turn:
            if not event.partial:
                events.append(event)
    except RaygroveError:
        # The error with which the turn has ended, which the caller has.
        pass
    return events


BACKOFF = Backoff(first_s=0.5, longest_s=30.0)
"""The waits before further attempts."""

HOPELESS = (RequestError, DefinitionError, TurnCancelledError)
"""Errors that a plain number of retries leaves as they are: another attempt would fail as well, or was not wanted."""

ErrorKind = type[BaseException] | str
"""A class of errors; or the name of one that an agent's own code raises."""


class Retries:
    """How often each kind of error is retried.

    Args:
        given: a number, for any error but those in `HOPELESS`; or numbers by kind of error.

    Raises:
        RequestError: `given` is neither.
    """

    def __init__(self, given: int | Mapping[ErrorKind, int]) -> None:
        self._number = 0
        self._kinds: list[tuple[ErrorKind, int]] = []
        if not isinstance(given, Mapping):
            self._number = checked_number("retries", given)
            return
        for kind, number in given.items():
            if not isinstance(kind, str) and not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise RequestError(f"retries has the key {kind!r}: give a class of errors, or the name of one")
            self._kinds.append((kind, checked_number(f"retries[{_name(kind)}]", number)))

    def of(self, error: BaseException) -> int:
        """The number of attempts that may follow the first one that failed with this error."""
        if not self._kinds:
            return 0 if isinstance(error, HOPELESS) else self._number
        return next((number for kind, number in self._kinds if _is(error, kind)), 0)


def _name(kind: ErrorKind) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def _is(error: BaseException, kind: ErrorKind) -> bool:
    if isinstance(kind, type) and isinstance(error, kind):
        return True
    # Of what an agent's own code raised, the driver gets the name of the class.
    raised = str(error.args[1]) if isinstance(error, AgentFailedError | PluginFailedError) else ""
    return _name(kind) in (raised, type(error).__name__)


def ends_map(error: BaseException) -> bool:
    """True for an error that all further inputs would meet: the deployment is gone."""
    return isinstance(error, RuntimeClosedError | ActorLostError) and not isinstance(error, TurnError)
