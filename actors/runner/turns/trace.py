"""The spans of a turn and of the runs in it, as the Runner gives them to telemetry.

A run has one span, whichever processes carry it out: its id follows from its place in the turn. So a run that is taken up again,
here or by the next Runner, goes on in the span that it had, and what a lost process has told stands below it.
"""

from __future__ import annotations

from actors.interfaces.telemetry import NO_TELEMETRY, OpenSpan, RunTold, Telemetry, TurnTold
from actors.messages.event import now_s
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled
from actors.rules.prompt.branches import tool_call, tool_root
from actors.rules.tracing.ids import SpanPlace, parse_traceparent, run_span_id, tool_span_id, turn_span_id, turn_trace_id
from actors.runner.runs import Run


class TurnTrace:
    """The open spans of one turn in this Runner.

    Args:
        traceparent: of the caller, which agents get where there is no telemetry.
    """

    def __init__(self, traceparent: str = "") -> None:
        self._traceparent = traceparent
        self._telemetry: Telemetry = NO_TELEMETRY
        self._open: dict[str, OpenSpan] = {}
        self._left: dict[str, float] = {}
        self._ended: set[str] = set()

    def begin(
        self, telemetry: Telemetry, turn: TurnRef, agent: str, *, first_seq: int, opened_seq: int, begun_s: float, answerer: str
    ) -> None:
        """The turn begins, or is taken up.

        Args:
            agent: the agent selected for it.
            first_seq: the position of the message with which the turn began.
            opened_seq, begun_s: the position and the time of the message that opened it last.
            answerer: the `traceparent` of who has sent that message, if it is an answer.
        """
        caller = parse_traceparent(self._traceparent)
        trace_id = caller.trace_id if caller else turn_trace_id(turn.key, turn.generation, turn.invocation_id)
        is_sampled = caller.is_sampled if caller else telemetry.is_sampled(trace_id)
        above = caller
        if first_seq != opened_seq:
            above = SpanPlace(trace_id, turn_span_id(trace_id, turn.invocation_id, first_seq), is_sampled)
        self._telemetry = telemetry
        self._turn = turn
        self._place = SpanPlace(trace_id, turn_span_id(trace_id, turn.invocation_id, opened_seq), is_sampled)
        self._span = telemetry.turn(
            TurnTold(
                place=self._place,
                above=above,
                caller=parse_traceparent(answerer),
                key=turn.key,
                invocation_id=turn.invocation_id,
                agent=agent,
                epoch=turn.epoch,
                seq=opened_seq,
                begun_s=begun_s,
            )
        )
        self._place = self._place._replace(is_sampled=self._span.is_sampled)

    def begin_run(self, run: Run) -> None:
        """A run begins, or is taken up."""
        if not self._telemetry.is_on:
            return
        span_id = self._span_id(run)
        self._left.pop(span_id, None)
        if span_id in self._open or span_id in self._ended:
            return
        self._open[span_id] = self._telemetry.run(
            RunTold(
                place=self._at(span_id),
                above=self._at(self._above(run)),
                transferred_from=self._at(self._span_id(run.before)) if run.before is not None else None,
                key=self._turn.key,
                invocation_id=self._turn.invocation_id,
                agent=run.agent,
                branch=run.branch,
                epoch=self._turn.epoch,
            )
        )

    def traceparent(self, run: Run) -> str:
        """What an actor gets that is to carry out a run."""
        if not self._telemetry.is_on:
            return self._traceparent
        span_id = self._span_id(run)
        if span_id in self._open:
            self._open[span_id].note(run=run.number)
        return self._at(span_id).traceparent

    def lost(self, run: Run, error: Exception) -> None:
        """The process was lost that carried a run out."""
        if self._telemetry.is_on and (span := self._open.get(self._span_id(run))) is not None:
            span.lost(run.number, str(error))

    def end_run(self, run: Run, outcome: AnyOutcome | None) -> None:
        """A run has ended; with None it was given up, and may be taken up again."""
        if not self._telemetry.is_on:
            return
        span_id = self._span_id(run)
        if outcome is None:
            self._left[span_id] = now_s()
        elif span_id in self._open:
            self._open.pop(span_id).end(outcome)
            self._ended.add(span_id)

    def end(self, outcome: AnyOutcome) -> None:
        """The turn has ended, or waits for an answer."""
        if not self._telemetry.is_on:
            return
        for span_id, span in self._open.items():
            span.end(Cancelled(), self._left.get(span_id))
        self._open.clear()
        self._span.end(outcome)

    def _at(self, span_id: str) -> SpanPlace:
        return self._place._replace(span_id=span_id)

    def _span_id(self, run: Run) -> str:
        if not run.span_id:
            run.span_id = run_span_id(self._above(run), run.agent, run.branch, run.transfer_seq, run.place)
        return run.span_id

    def _above(self, run: Run) -> str:
        """The span above a run: of the turn, of the run that has asked for it, or of that run's tool call."""
        if run.parent is None:
            return self._place.span_id
        parent = self._span_id(run.parent)
        if tool_root(run.branch) == tool_root(run.parent.branch):
            return parent
        return tool_span_id(parent, tool_call(run.branch))
