"""What has happened in one run, in real order, as programs, tools and models have seen it. `tests.model.judge` looks at it.

A program notes each request before it makes it, and all that comes of it. So a new deed is noted in two lines:

    ask = history.ask("rewind", user="ada", session="s1", turn="e-1", program="driver 3")
    await history.wait(ask, rt.aio.sessions.rewind("ada", "s1", "e-1"))

and one that gives a turn, which is read to its end, with `read` in place of `wait`:

    ask = history.ask("retry", user="ada", session="s1", turn="e-1", given={"from_event": "…"})
    await history.read(ask, rt.retry(user_id="ada", session_id="s1", invocation_id="e-1", from_event="…"))

`what` names the method: `run` and others of `rt`, `create`, `get`, `delete`, `fork`, `rewind`, `append_event`, `prune` and others
of `rt.sessions`; `prune`, "users.delete" and "users.move" act on a user, and name no session. The judge knows these names. A deed
for which it has no rule is noted all the same: its errors are looked at, and other rules see that it may have changed something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from actors import Content, Event, RunConfig
from actors.errors import ClusterError, RaygroveError, RequestError, StoreError, TurnError

Moment = tuple[float, int]
"""Seconds, and a number that tells apart what happens in one of them: a later moment is greater."""

SessionId = tuple[str, str]
"""The user, and the session's id."""

NEVER: Moment = (float("inf"), 0)


class Ask(msgspec.Struct, kw_only=True, eq=False):
    """A request of a program, and what came of it.

    Attributes:
        what: the method that was called.
        how: the same in the words of the run, for sentences.
        program: that asks.
        user, session, turn: for what; "" where there is none. The turn of an answer is the one that has made the call.
        message: that was sent; None for none.
        responses: that answer calls, by the ids of these.
        fingerprint: of the request.
        config: the options of the turn.
        given: all else.
        began, ended_at: when it was asked, and when the last news of it came; NEVER: none has come.
        heard: the events that came, partial ones too.
        ended: the class name of the outcome, "done" for what has none, or the class name of the error; "": it has no end yet.
        kind: "end" of a turn, "done", "refusal", and "store" and "cluster" for errors of these.
        error: the text of the error. `raised`: the error.
        result: what was returned.
    """

    what: str
    how: str = ""
    program: str = ""
    user: str = ""
    session: str = ""
    turn: str = ""
    message: Content | None = None
    responses: Mapping[str, Any] = {}
    fingerprint: str = ""
    config: RunConfig = RunConfig()
    given: Mapping[str, Any] = {}
    began: Moment = (0.0, 0)
    heard: list[tuple[Moment, Event]] = []
    ended: str = ""
    kind: str = ""
    error: str = ""
    raised: BaseException | None = None
    result: Any = None
    ended_at: Moment = NEVER

    @property
    def events(self) -> list[Event]:
        """The complete events that came."""
        return [event for _, event in self.heard if not event.partial]

    @property
    def begins(self) -> bool:
        """It may begin a turn."""
        return self.what in ("run", "run_flow", "run_now") and not self.responses

    @property
    def steers(self) -> bool:
        """Its message is for an agent that is at work; `turn` is the one that has it, when that is known."""
        return self.what == "run" and self.config.on_concurrent_turn == "steer"

    @property
    def goes_on(self) -> bool:
        """It may have a turn go on."""
        return self.what == "retry" or bool(self.responses)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.program, f"({self.how or self.what} {self.turn})".replace(" )", ")"))))


class ToolRun(msgspec.Struct, kw_only=True, eq=False):
    """A tool that was called.

    Attributes:
        asks: an agent, which works for it.
        process, runner: in which it ran, and the Runner's process that has started that one.
        ended: NEVER if it was not seen to end.
        wrote: what it has set of the state, and when.
        saw_first, saw: the state when it began, and when it ended, if it has looked.
    """

    call_id: str
    began: Moment
    asks: bool = False
    process: str = ""
    runner: str = ""
    ended: Moment = NEVER
    wrote: list[tuple[Moment, str, Any]] = []
    saw_first: Mapping[str, Any] | None = None
    saw: Mapping[str, Any] | None = None


class ModelCall(msgspec.Struct, kw_only=True, eq=False):
    """A model that was asked. `turn`: "" where the model cannot know it. `runner`: as of a tool."""

    agent: str
    turn: str
    at: Moment
    contents: Sequence[Content] = ()
    runner: str = ""


class Loss(msgspec.Struct, kw_only=True, eq=False):
    """A run whose process was lost.

    Attributes:
        with_runner: its Runner was lost, too.
        waits: it waited for another run.
    """

    at: Moment
    turn: str
    agent: str
    with_runner: bool = False
    waits: bool = False


class TurnRecord(msgspec.Struct, kw_only=True):
    """The record of a turn. `used`: sums by their names, as of `actors.Usage` reports; None where there are none."""

    status: str
    epoch: int = 0
    used: Mapping[str, int] | None = None


class Found(msgspec.Struct, kw_only=True):
    """What a fresh reader finds of a session when all is over.

    Attributes:
        log: the events that are shown, with their positions.
        state: by keys with prefixes.
        turns: their records, by id.
        written_s: when the session was written to last, by the clock of events; 0: not known.
    """

    log: Sequence[Event] = ()
    state: Mapping[str, Any] = {}
    turns: Mapping[str, TurnRecord] = {}
    written_s: float = 0.0


class History:
    """The records of one run.

    Args:
        now_s: the time.

    Attributes:
        asks: in the order in which they began.
        tools, models: calls of these.
        lost: processes that were lost, by name: "driver …" for programs, "runner", "session" and "agent …" for actors.
        losses: runs that were lost with their processes.
        alone: when runs went on alone in a process, with their turns and agents.
        resumed: when Runners got turns to go on with that others, or they, had begun.
        faults: names of what went wrong otherwise, such as "store away".
        store_s: the longest time that the store takes for a commit, where that is known.
        stored: all events that were stored, by session and in order, where the store tells; those that were taken back included.
        known: by the ids of events, from when on it is sure that each was stored: that moment, or when the first program had it.
        removed: sessions that were deleted, and their events until then.
        found: what there is at the end.
    """

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._number = 0
        self.asks: list[Ask] = []
        self.tools: list[ToolRun] = []
        self.models: list[ModelCall] = []
        self.lost: list[tuple[Moment, str]] = []
        self.losses: list[Loss] = []
        self.alone: list[tuple[Moment, str, str]] = []
        self.resumed: list[tuple[Moment, str, str]] = []
        self.faults: list[tuple[Moment, str]] = []
        self.store_s = 0.0
        self.stored: dict[SessionId, list[Event]] = {}
        self.known: dict[str, Moment] = {}
        self.removed: list[tuple[SessionId, list[Event]]] = []
        self.found: dict[SessionId, Found] = {}

    def now(self) -> Moment:
        """This moment, which is after all before."""
        self._number += 1
        return self._now_s(), self._number

    def ask(self, what: str, **of: Any) -> Ask:
        """A program is about to ask. `of`: fields of Ask."""
        ask = Ask(what=what, began=self.now(), **of)
        self.asks.append(ask)
        return ask

    def name(self, ask: Ask, turn: str) -> None:
        """The turn of a request that has named none is known."""
        ask.turn = turn

    def hear(self, ask: Ask, event: Event) -> None:
        now = self.now()
        ask.heard.append((now, event))
        if not event.partial:
            self.known.setdefault(event.id, now)

    def end(self, ask: Ask, ended: str | BaseException, result: Any = None) -> None:
        """The request has come to its end. `ended`: the class name of an outcome, "done", or an error."""
        ask.ended_at, ask.result = self.now(), result
        if isinstance(ended, str):
            ask.ended, ask.kind = ended, "done" if ended == "done" else "end"
        else:
            ask.ended, ask.kind, ask.error, ask.raised = type(ended).__name__, _kind(ended), str(ended), ended

    async def read(self, ask: Ask, turn: Any) -> None:
        """Read a turn to its end. Errors of the request are noted, and not raised."""
        try:
            async for event in turn:
                self.hear(ask, event)
            result = await turn
            self.end(ask, type(result.outcome).__name__, result)
        except RaygroveError as error:
            self.end(ask, error)

    async def wait(self, ask: Ask, answer: Awaitable[Any]) -> Any:
        """Wait for what is no turn. Returns it, or None after an error of the request, which is noted."""
        try:
            result = await answer
        except RaygroveError as error:
            self.end(ask, error)
            return None
        self.end(ask, "done", result)
        return result

    def begin_tool(self, call_id: str) -> ToolRun:
        """A tool begins. What it sees, it sets in the record itself."""
        run = ToolRun(call_id=call_id, began=self.now())
        self.tools.append(run)
        return run

    def end_tool(self, run: ToolRun) -> None:
        """It ends."""
        run.ended = self.now()

    def write(self, run: ToolRun, key: str, value: Any) -> None:
        """A tool sets a key of the state."""
        run.wrote.append((self.now(), key, value))

    def ask_model(self, agent: str, turn: str = "", contents: Sequence[Content] = (), runner: str = "") -> None:
        """A model is asked."""
        self.models.append(ModelCall(agent=agent, turn=turn, at=self.now(), contents=contents, runner=runner))

    def lose(self, process: str, agents: Sequence[str] = ()) -> None:
        """A process is lost, with runs of these agents."""
        self.lost.append((self.now(), process))
        for agent in agents:
            self.lose_run("", agent, with_runner=False, waits=False)

    def given_up(self, runner: str) -> Moment:
        """When the process of a Runner was lost, and with it those that it has started, which may live on; NEVER: it was not."""
        return next((at for at, process in self.lost if process == runner), NEVER)

    @property
    def lost_runs(self) -> Counter[str]:
        """How often runs of each agent were lost."""
        return Counter(loss.agent for loss in self.losses)

    def lose_run(self, turn: str, agent: str, *, with_runner: bool, waits: bool) -> None:
        """A run is lost with its process."""
        self.losses.append(Loss(at=self.now(), turn=turn, agent=agent, with_runner=with_runner, waits=waits))

    def resume(self, turn: str, runner: str) -> None:
        """A Runner has got a turn to go on with, as far as is known."""
        self.resumed.append((self.now(), turn, runner))

    def go_alone(self, turn: str, agent: str) -> None:
        """A run goes on in a process of its own."""
        self.alone.append((self.now(), turn, agent))

    def fail(self, fault: str) -> None:
        """Something else goes wrong."""
        self.faults.append((self.now(), fault))

    def store(self, session: SessionId, event: Event) -> None:
        """An event is stored."""
        self.stored.setdefault(session, []).append(event)
        self.known.setdefault(event.id, self.now())

    def remove(self, session: SessionId) -> None:
        """A session is deleted from the store."""
        self.removed.append((session, self.stored.pop(session, [])))

    @property
    def logs(self) -> Sequence[Sequence[Event]]:
        """What was stored of each session, those that were deleted included."""
        return [*self.stored.values(), *(log for _, log in self.removed)]

    @property
    def begun(self) -> Counter[str]:
        """How often tools were called that are no agents, by the ids of the calls."""
        return Counter(run.call_id for run in self.tools if not run.asks)

    @property
    def asked(self) -> Sequence[tuple[str, Sequence[Content]]]:
        """What models were shown, each with its agent."""
        return [(call.agent, call.contents) for call in self.models]

    @property
    def store_failed(self) -> bool:
        """True if a fault of a store was noted."""
        return any(name.startswith(("store", "commit")) for _, name in self.faults)


def _kind(error: BaseException) -> str:
    kinds = {TurnError: "end", RequestError: "refusal", StoreError: "store", ClusterError: "cluster"}
    return next((kind for of, kind in kinds.items() if isinstance(error, of)), "other")
