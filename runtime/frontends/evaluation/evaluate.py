"""Runs the cases of evaluation sets, each in a session of its own, and scores what the agents did."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from actors.errors import RaygroveError
from actors.layers.stores.batch import BatchItem, CaseTurn
from actors.messages.event import now_s
from actors.rules.routing.branches import tool_root
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import TurnResult, output_event
from runtime.frontends.evaluation.criteria import Criterion
from runtime.frontends.evaluation.eval_sets import EvalCase, EvalSet, ExpectedTurn, ToolUse

TEXT_LETTERS, CALL_LETTERS = 400, 160
"""Of a text, and of a call of a tool, that are kept with a turn's scores."""

NEEDS_SIMULATOR = "its conversation needs a user simulator"


@dataclass(frozen=True)
class CaseResult:
    """How a case went.

    Attributes:
        eval_set: the name of its file.
        session: the id of the session in which it ran.
        scores: by metric, means over its turns.
        turns: those that have ended well, in order, each with its scores.
        passed: all scores reach their thresholds.
        error: why it has no scores; "" when it has.
    """

    eval_set: str
    eval_id: str
    session: str
    scores: Mapping[str, float]
    passed: bool
    error: str = ""
    turns: Sequence[CaseTurn] = ()


def evaluate(rt: Runtime, eval_set: EvalSet, criteria: Sequence[Criterion]) -> Iterator[CaseResult]:
    """Run the cases of a set, one after the other. A case whose turn fails has not passed; the others run.

    The results are kept with the sessions: `rt.batches` has them.

    Args:
        criteria: those that need a judge are left out.
    """
    thresholds = {each.metric: each.threshold for each in criteria if each.score is not None}
    told = rt.batches.begin("evaluation", eval_set.file.name, total=len(eval_set.cases), thresholds=thresholds)
    results: list[CaseResult] = []
    try:
        for case in eval_set.cases:
            result = _result(rt, eval_set, case, criteria)
            results.append(result)
            failed = sum(not each.passed for each in results)
            told.note(
                done=len(results), failed=failed, scores=_means([each.scores for each in results]), item=_item(case, result)
            )
            yield result
    except BaseException:
        told.leave()
        raise
    told.finish()


def _result(rt: Runtime, eval_set: EvalSet, case: EvalCase, criteria: Sequence[Criterion]) -> CaseResult:
    session = f"eval-{uuid.uuid4().hex[:12]}"
    reason = "" if case.turns else NEEDS_SIMULATOR if case.turns is None else "it has no turns"
    turns: list[CaseTurn] = []
    try:
        turns.extend(_turns(rt, case, session, criteria))
    except RaygroveError as error:
        reason = f"{type(error).__name__}: {error}"
    scores = {} if reason else _means([turn.scores for turn in turns])
    passed = not reason and all(scores[each.metric] >= each.threshold for each in criteria if each.metric in scores)
    return CaseResult(str(eval_set.file), case.eval_id, session, scores, passed=passed, error=reason, turns=turns)


def _item(case: EvalCase, result: CaseResult) -> BatchItem:
    return BatchItem(
        position=0,
        name=case.eval_id,
        user_id=case.user,
        # A case without turns has no session.
        session_id=result.session if case.turns else "",
        at_s=now_s(),
        error=result.error,
        scores=dict(result.scores),
        turns=result.turns,
        passed=result.passed,
    )


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the cases, or turns, that have it."""
    metrics = dict.fromkeys(metric for each in scores for metric in each)
    found = {metric: [each[metric] for each in scores if metric in each] for metric in metrics}
    return {metric: sum(values) / len(values) for metric, values in found.items()}


def _turns(rt: Runtime, case: EvalCase, session: str, criteria: Sequence[Criterion]) -> Iterator[CaseTurn]:
    """Run the turns of a case, and score each. Raises what a turn fails with."""
    if case.turns:
        rt.sessions.create(case.user, session, case.state)
    for expected in case.turns or ():
        result = rt.run(user_id=case.user, session_id=session, message=expected.message).result()
        yield _scored(expected, result, criteria)


def _scored(expected: ExpectedTurn, result: TurnResult, criteria: Sequence[Criterion]) -> CaseTurn:
    tools, answer = _tool_uses(result), _answer(result)
    return CaseTurn(
        invocation_id=result.invocation_id,
        message=_short(expected.message.text, TEXT_LETTERS),
        expected=_short(expected.answer, TEXT_LETTERS),
        answer=_short(answer, TEXT_LETTERS),
        expected_tools=[_call(use) for use in expected.tool_uses],
        tools=[_call(use) for use in tools],
        scores={each.metric: each.score(expected, tools, answer) for each in criteria if each.score is not None},
    )


def _call(use: ToolUse) -> str:
    return _short(f"{use.name}({', '.join(f'{name}={value!r}' for name, value in use.args.items())})", CALL_LETTERS)


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


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
    """The text of the newest final response that has any, its parts in lines; or the output of a graph."""
    if output_event(result.events) is not None:
        return result.text
    for event in reversed(result.events):
        if event.content is not None and event.is_final_response() and event.text and tool_root(event.branch) is None:
            return "\n".join(part.text for part in event.content.parts if part.text and not part.thought)
    return ""
