"""Spans of turns, of the runs in them, and of their calls, as telemetry gets them.

A run has one span, whichever processes carry it out. Ids of spans are derived from what they stand for: an actor that takes up
what a lost process began derives the same ids, so its spans belong to the same tree, and no span has to be handed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Self

from actors.behaviours.interceptor import CallModel, CallTool, RunInterceptor, RunParts
from actors.interfaces.telemetry import NO_RUN_TELEMETRY, LossTold, RunTold, Telemetry, TurnTold
from actors.messages.content import Content
from actors.messages.event import now_s
from actors.messages.llm import LlmResponse
from actors.messages.protocol.runs import AnyOutcome, Cancelled, Paused
from actors.messages.session import SessionKey
from actors.rules.traceparent import SpanPlace, parse_traceparent
from actors.runner.running_turn import Run, RunningTurn

TRACE_BYTES, SPAN_BYTES = 16, 8

_SEPARATOR = "\x1f"


def turn_trace_id(key: SessionKey, generation: str, invocation_id: str) -> str:
    """The trace of a turn whose caller has none."""
    return _digest(TRACE_BYTES, key.app, key.user, key.session, generation, invocation_id)


def turn_span_id(trace_id: str, invocation_id: str, opened_seq: int) -> str:
    """The span of a turn from the message at `opened_seq` on: the first one, or an answer after a pause."""
    return _digest(SPAN_BYTES, trace_id, "turn", invocation_id, opened_seq)


def run_span_id(above: str, agent: str, branch: str | None, transfer_seq: int | None, place: str) -> str:
    """The span of an agent's run, whichever processes carry it out.

    Args:
        above: the span of the run that has asked for it, or of the turn.
        transfer_seq: the position of the transfer by which the agent got the floor.
        place: tells the runs apart that one run asks of the same agent on the same branch.
    """
    return _digest(SPAN_BYTES, above, "run", agent, branch or "", transfer_seq or 0, place)


def _digest(size: int, *names: str | int) -> str:
    text = _SEPARATOR.join(map(str, names))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


@dataclass(slots=True)
class _BegunRun:
    """A run that has begun and not ended.

    Attributes:
        left_s: when it was given up; None while it goes on.
    """

    run: Run
    began_s: float
    left_s: float | None = None
    losses: list[LossTold] = field(default_factory=list)


class TurnTrace:
    """Implements `TurnSpans`.

    Args:
        telemetry: gets the spans of the turn and of its runs when they end.
        turn: it.
    """

    def __init__(self, telemetry: Telemetry, turn: RunningTurn) -> None:
        self._telemetry = telemetry
        ref = self._turn = turn.ref
        self._answerer = turn.answerer
        self._begun: dict[str, _BegunRun] = {}
        self._ended: set[str] = set()
        caller = parse_traceparent(turn.traceparent)
        trace_id = caller.trace_id if caller else turn_trace_id(ref.key, ref.generation, ref.invocation_id)
        is_sampled = caller.is_sampled if caller else telemetry.is_sampled(trace_id)

        def opened_at(seq: int) -> SpanPlace:
            return SpanPlace(trace_id, turn_span_id(trace_id, ref.invocation_id, seq), is_sampled)

        self._seq = opened_seq = turn.message.stored.seq
        first_seq = turn.progress.first_seq if turn.progress is not None else opened_seq
        self._place = opened_at(opened_seq)
        self._above = caller if first_seq == opened_seq else opened_at(first_seq)
        self._begun_s = turn.message.event.timestamp

    def begin_run(self, run: Run) -> None:
        """A run begins, or is taken up."""
        span_id = self._span_id(run)
        if (begun := self._begun.get(span_id)) is not None:
            begun.run, begun.left_s = run, None
        elif span_id not in self._ended:
            self._begun[span_id] = _BegunRun(run, now_s())

    def traceparent(self, run: Run) -> str:
        """The `traceparent` for an actor that is to carry out a run."""
        return self._at(run).traceparent

    def lost(self, run: Run, error: Exception) -> None:
        """The process was lost that carried a run out."""
        if (begun := self._begun.get(self._span_id(run))) is not None:
            begun.losses.append(LossTold(run.number, str(error), now_s()))

    def end_run(self, run: Run, outcome: AnyOutcome | None) -> None:
        """A run has ended; with None it was given up, and may be taken up again."""
        span_id = self._span_id(run)
        begun = self._begun.get(span_id)
        if begun is None:
            return
        if outcome is None:
            begun.left_s = now_s()
        else:
            self._tell(span_id, outcome)

    def end_turn(self, agent: str, outcome: AnyOutcome, left: AnyOutcome | None = None) -> None:
        """The turn has ended, or waits for an answer.

        Args:
            agent: the agent that was selected for it.
            left: how the runs have ended of which nothing was heard; None: they were cancelled.
        """
        for span_id in list(self._begun):
            self._tell(span_id, left or Cancelled())
        self._telemetry.turn(
            TurnTold(
                place=self._place,
                above=self._above,
                answerer=parse_traceparent(self._answerer),
                turn=self._turn,
                agent=agent,
                seq=self._seq,
                began_s=self._begun_s,
                ended_s=now_s(),
                outcome=outcome,
            )
        )

    def _tell(self, span_id: str, outcome: AnyOutcome) -> None:
        begun = self._begun.pop(span_id)
        run = begun.run
        self._ended.add(span_id)
        self._telemetry.run(
            RunTold(
                place=self._at(run),
                # Not the tool call that has asked for it, which may be lost with its process, and never be told.
                above=self._at(run.parent) if run.parent is not None else self._place,
                asked_by=parse_traceparent(run.traceparent),
                transferred_from=self._at(run.before) if run.before is not None else None,
                turn=self._turn,
                agent=run.agent,
                branch=run.branch,
                number=run.number,
                began_s=begun.began_s,
                ended_s=begun.left_s or now_s(),
                losses=begun.losses,
                outcome=outcome,
            )
        )

    def _at(self, run: Run) -> SpanPlace:
        return self._place._replace(span_id=self._span_id(run))

    def _span_id(self, run: Run) -> str:
        if not run.span_id:
            above = self._span_id(run.parent) if run.parent is not None else self._place.span_id
            run.span_id = run_span_id(above, run.agent, run.branch, run.transfer_seq, run.place)
        return run.span_id


class Tracing(RunInterceptor):
    """Makes a span of each call."""

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a process with telemetry."""
        return cls(run) if run.context.telemetry is not NO_RUN_TELEMETRY else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Report a model call, and when its pieces come."""
        show = call.show
        with self.run.context.telemetry.model_call(call.request, call.name, stream=call.streams) as span:

            async def report(piece: Content | None) -> None:
                span.chunk()
                if show is not None:
                    await show(piece)

            call.show = report if show is not None else None
            try:
                response = await self.next.call_model(call)
            finally:
                call.show = show
            span.chunk()
            span.answered(response)
        return response

    async def call_tool(self, call: CallTool) -> object:
        """Report a call of a tool. What the tool has raised is an error of the span, also if a callback has a result instead."""
        failure: BaseException | None = None
        with self.run.context.telemetry.tool_call(call.call, call.tool.description) as span:
            try:
                result = await self.next.call_tool(call)
            except BaseException as error:
                if error is not call.error:
                    raise
                failure = error
            if call.error is not None:
                span.failed(call.error)
            if failure is None and not isinstance(result, Paused):
                span.answered(result)
        if failure is not None:
            raise failure
        return result
