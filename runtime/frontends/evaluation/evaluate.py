"""Runs the cases of evaluation sets, each in a session of its own, and scores what the agents did."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from actors.errors import RaygroveError
from actors.rules.routing.branches import tool_root
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import TurnResult
from runtime.frontends.evaluation.criteria import Criterion
from runtime.frontends.evaluation.eval_sets import EvalCase, EvalSet, ExpectedTurn, ToolUse

NEEDS_SIMULATOR = "its conversation needs a user simulator"


@dataclass(frozen=True)
class CaseResult:
    """How a case went.

    Attributes:
        eval_set: the name of its file.
        eval_id: the case.
        session: the id of the session in which it ran.
        scores: by metric, means over its turns.
        passed: all scores reach their thresholds.
        error: why it has no scores; "" when it has.
    """

    eval_set: str
    eval_id: str
    session: str
    scores: Mapping[str, float]
    passed: bool
    error: str = ""


def evaluate(rt: Runtime, eval_set: EvalSet, criteria: Sequence[Criterion]) -> Iterator[CaseResult]:
    """Run the cases of a set, one after the other. A case whose turn fails has not passed; the others run.

    Args:
        rt: runs the turns.
        eval_set: the cases.
        criteria: those that need a judge are left out.
    """
    for case in eval_set.cases:
        session = f"eval-{uuid.uuid4().hex[:12]}"
        try:
            scores = _scores(rt, case, session, criteria)
        except RaygroveError as error:
            yield CaseResult(
                str(eval_set.file), case.eval_id, session, {}, passed=False, error=f"{type(error).__name__}: {error}"
            )
            continue
        passed = all(scores[each.metric] >= each.threshold for each in criteria if each.metric in scores)
        reason = "" if case.turns else NEEDS_SIMULATOR if case.turns is None else "it has no turns"
        yield CaseResult(str(eval_set.file), case.eval_id, session, scores, passed=passed and not reason, error=reason)


def _scores(rt: Runtime, case: EvalCase, session: str, criteria: Sequence[Criterion]) -> dict[str, float]:
    if not case.turns:
        return {}
    rt.sessions.create(case.user, session, case.state)
    done = []
    for expected in case.turns:
        result = rt.run(user_id=case.user, session_id=session, message=expected.message).result()
        done.append((expected, _tool_uses(result), _answer(result)))
    return {each.metric: _mean(each, done) for each in criteria if each.score is not None}


def _mean(criterion: Criterion, done: Sequence[tuple[ExpectedTurn, tuple[ToolUse, ...], str]]) -> float:
    assert criterion.score is not None
    return sum(criterion.score(*each) for each in done) / len(done)


def _tool_uses(result: TurnResult) -> tuple[ToolUse, ...]:
    """The calls of a turn, transfers too. What agents call that are tools themselves is their own affair."""
    return tuple(
        ToolUse(part.function_call.name, dict(part.function_call.args))
        for event in result.events
        if event.content is not None and tool_root(event.branch) is None
        for part in event.content.parts
        if part.function_call is not None
    )


def _answer(result: TurnResult) -> str:
    """The text of the newest final response that has any, its parts in lines."""
    for event in reversed(result.events):
        if event.content is not None and event.is_final_response() and event.text and tool_root(event.branch) is None:
            return "\n".join(part.text for part in event.content.parts if part.text and not part.thought)
    return ""
