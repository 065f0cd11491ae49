"""What supervisors do: run their children one after the other, again and again, or at once (seed 004; semantics.md section 4).

No event passes through them: each child stores its own. A supervisor sees outcomes, and leaves its progress in the log, so that a
workflow goes on where it was instead of beginning again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from actors.behaviours.workflow.restarts import ChildRestarts
from actors.definitions.agents.workflow import LoopAgent
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import SupervisorContext
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused


async def run_sequential(spec: AgentSpec, context: SupervisorContext) -> AnyOutcome:
    """Run each child once. An escalation cuts nothing, it travels up."""
    return await _in_order(spec, context, ChildRestarts(spec, context), {}, stop_on_escalation=False) or Finished()


async def run_loop(spec: AgentSpec, context: SupervisorContext) -> AnyOutcome:
    """Run the children in order, again and again, until one escalates or the last iteration is done."""
    definition = cast(LoopAgent, spec.definition)
    watch = ChildRestarts(spec, context)
    iteration = int(context.progress.get("iteration", 0))
    while spec.children and (not definition.max_iterations or iteration < definition.max_iterations):
        stopped = await _in_order(spec, context, watch, {"iteration": iteration}, stop_on_escalation=True)
        if stopped is not None or context.escalated:
            if definition.on_escalate == "absorb":
                # Also of a run that is only paused, or the loop around it would end when the answer has come.
                context.escalated = False
                stopped = stopped and msgspec.structs.replace(stopped, escalated=False)
            return stopped or Finished()
        iteration += 1
    return Finished()


async def _in_order(
    spec: AgentSpec, context: SupervisorContext, watch: ChildRestarts, where: dict[str, Any], *, stop_on_escalation: bool
) -> AnyOutcome | None:
    """Run the children from the first on, or from the one at which the run goes on.

    Returns:
        The outcome that ended it, if one did that is not Finished.
    """
    children = list(spec.children)
    begun = _begun(context)
    if begun is not None:
        del children[: children.index(begun)]
        context.escalated = context.escalated or bool(context.progress.get("escalated"))
    for child in children:
        if child != begun:
            watch.turns_to_next()
            noted = {**where, "child": child, "escalated": context.escalated, **watch.kept()}
            outcome = await context.run_child(child, progress=noted)
            watch.begun[child] = context.noted_seq
        elif child in watch.skipped:
            outcome = Finished()
        else:
            # Its beginning is in the log, and so is what it has done since.
            await watch.until_due(child)
            outcome = await context.run_child(child, resume=context.is_resumed)
        outcome = await watch.settled(child, outcome, where)
        if isinstance(outcome, Paused) and outcome.escalated:
            # A child that is paused is not over: that it has escalated already counts when it is.
            since = watch.begun.get(child, 0)
            await context.note({**where, "child": child, "escalated": True, "since": since, **watch.kept(child)})
        begun = None
        if not isinstance(outcome, Finished):
            return outcome
        if stop_on_escalation and context.escalated:
            break
    return None


def _begun(context: SupervisorContext) -> str | None:
    """The child at which the run goes on, or None. It is told once: in a later iteration the children begin with the first."""
    begun = context.resume_at[0] if context.resume_at else context.progress.get("child") if context.is_resumed else None
    context.resume_at = ()
    context.progress = {**context.progress, "child": None}
    return begun


async def run_parallel(spec: AgentSpec, context: SupervisorContext) -> AnyOutcome:
    """Run all children at once, each on its own branch; of a run that goes on, those that have been answered.

    The first whose failure goes up ends the others. It is done when every child is.
    """
    watch = ChildRestarts(spec, context)
    paused: Mapping[str, list[str]] = context.progress.get("waiting", {})
    waiting = dict(paused)
    context.escalated = context.escalated or bool(context.progress.get("escalated"))
    branch = f"{context.branch}.{spec.name}" if context.branch else spec.name
    # When the whole run was lost, each child tells by what the log has of it whether it was done.
    children = tuple(waiting) if context.is_resumed and waiting else context.resume_at or spec.children

    async def run_supervised(child: str) -> AnyOutcome:
        on = f"{branch}.{child}"
        await watch.until_due(child)
        outcome = await context.run_child(child, branch=on, resume=context.is_resumed)
        return await watch.settled(child, outcome, {"waiting": paused}, on)

    runs = {asyncio.create_task(run_supervised(child)): child for child in children if child not in watch.skipped}
    try:
        stopped = await _all(runs, waiting)
    finally:
        for run in runs:
            run.cancel()
    if stopped is not None:
        await context.stop_branch(branch)
        return stopped
    if not waiting:
        return Finished()
    await context.note({"waiting": waiting, "escalated": context.escalated, **watch.kept()})
    return Paused(call_ids=tuple(call_id for call_ids in waiting.values() for call_id in call_ids))


async def _all(runs: dict[asyncio.Task[AnyOutcome], str], waiting: dict[str, list[str]]) -> AnyOutcome | None:
    """Wait until all have finished or paused, or one has not. `waiting` is brought up to date: who waits for which calls."""
    pending = set(runs)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for run in done:
            outcome = run.result()
            waiting.pop(runs[run], None)
            if isinstance(outcome, Paused):
                waiting[runs[run]] = list(outcome.call_ids)
            elif not isinstance(outcome, Finished):
                return outcome
    return None
