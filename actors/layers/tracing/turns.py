"""The spans of a turn and of the runs in it, as the Runner gives them to telemetry.

A run has one span, whichever processes carry it out: its id follows from its place in the turn. So a run that is taken up again,
here or by the next Runner, goes on in the span that it had, and what a lost process has told stands below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.interfaces.telemetry import LossTold, RunTold, Telemetry, TurnTold
from actors.layers.tracing.rules import run_span_id, turn_span_id, turn_trace_id
from actors.messages.event import now_s
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled
from actors.rules.traceparent import SpanPlace, parse_traceparent
from actors.runner.running.running_turn import RunningTurn
from actors.runner.running.runs import Run


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
