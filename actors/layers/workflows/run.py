"""What workflow agents do: run their children one after the other, again and again, or at once (semantics.md section 4).

No event passes through them: each child stores its own. A workflow sees outcomes, and stores how far it is, so that it goes on
there after a pause or a loss.
"""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec

from actors.agent.invocation import Invocation
from actors.definitions.spec import AgentSpec
from actors.layers.workflows import rules
from actors.layers.workflows.definitions import LoopAgent, WorkflowAgent
from actors.messages.json_types import JsonMapping, Progress
from actors.messages.protocol.runs import AnyOutcome, Failed, Finished, Paused


async def run_sequential(spec: AgentSpec, context: Invocation) -> AnyOutcome:
    """Run each child once. An escalation does not end the sequence; its outcome says that there was one."""
    return await _Sequence(spec, context, stop_on_escalation=False).run({})


async def run_loop(spec: AgentSpec, context: Invocation) -> AnyOutcome:
    """Run the children in order, again and again, until one escalates or the last iteration is done."""
    definition = cast(LoopAgent, spec.definition)
    sequence = _Sequence(spec, context, stop_on_escalation=True)
    iteration = int(context.progress.get("iteration", 0))
    while spec.children and (not definition.max_iterations or iteration < definition.max_iterations):
        outcome = await sequence.run({"iteration": iteration})
        if not isinstance(outcome, Finished) or outcome.escalated:
            # Also a pause says nothing of an absorbed escalation: it would end the loop around this one after the answer.
            return msgspec.structs.replace(outcome, escalated=False) if definition.absorbs_escalation else outcome
        iteration += 1
    return Finished()


class _Sequence:
    """Runs the children of a workflow in order: once, or once in each iteration of a loop.

    Args:
        stop_on_escalation: no child begins after one that has escalated.
    """

    def __init__(self, spec: AgentSpec, context: Invocation, *, stop_on_escalation: bool) -> None:
        self._children = spec.children
        self._context = context
        self._stop_on_escalation = stop_on_escalation
        self._restarts = ChildRestarts(spec, context)
        # The child at which a run goes on; None once it has.
        self._resumed: str | None = None
        if context.resume_at:
            self._resumed = context.resume_at[0]
        elif context.is_resumed:
            self._resumed = context.progress.get("child")

    async def run(self, position: JsonMapping) -> AnyOutcome:
        """Run the children, from the first one or from the one at which the run goes on.

        Args:
            position: how far the workflow is, for its notes.

        Returns:
            Finished when each child is; else the outcome that ended the sequence.
        """
        resumed, self._resumed = self._resumed, None
        restarts = self._restarts
        children = self._children if resumed is None else self._children[self._children.index(resumed) :]
        for child in children:
            outcome = await self._run_child(child, position, is_resumed=child == resumed)
            if isinstance(outcome, Paused) and outcome.escalated:
                # The run goes on with the answer, and has to know then that this child has escalated already.
                since = restarts.begun.get(child, 0)
                await self._context.note(
                    {**position, "child": child, "escalated": True, "since": since, **restarts.progress(child)}
                )
            if not isinstance(outcome, Finished):
                return msgspec.structs.replace(outcome, escalated=restarts.has_escalated)
            if self._stop_on_escalation and restarts.has_escalated:
                break
        return Finished(escalated=restarts.has_escalated)

    async def _run_child(self, child: str, position: JsonMapping, *, is_resumed: bool) -> AnyOutcome:
        context, restarts = self._context, self._restarts
        outcome: AnyOutcome
        if not is_resumed:
            restarts.forget_finished()
            noted = {**position, "child": child, "escalated": restarts.has_escalated, **restarts.progress()}
            outcome = await context.run_child(child, progress=noted)
            restarts.begun[child] = context.noted_seq
        elif child in restarts.skipped:
            outcome = Finished()
        else:
            # Its beginning is in the log, and so is what it has done since.
            await restarts.wait_until_due(child)
            outcome = await context.run_child(child, resume=context.is_resumed)
        return await restarts.supervise(child, outcome, position)


async def run_parallel(spec: AgentSpec, context: Invocation) -> AnyOutcome:
    """Run all children at once, each on its own branch; after a pause, those whose calls were answered.

    It finishes when every child has. A failure that is not restarted or skipped stops the other children.
    """
    restarts = ChildRestarts(spec, context)
    paused: dict[str, list[str]] = dict(context.progress.get("waiting", {}))
    waiting = dict(paused)
    branch = f"{context.branch}.{spec.name}" if context.branch else spec.name
    # A lost run begins all its children again: each finds in the log whether it was done.
    children = tuple(waiting) if context.is_resumed and waiting else context.resume_at or spec.children

    async def run_child(child: str) -> AnyOutcome:
        on_branch = f"{branch}.{child}"
        await restarts.wait_until_due(child)
        outcome = await context.run_child(child, branch=on_branch, resume=context.is_resumed)
        return await restarts.supervise(child, outcome, {"waiting": paused}, on_branch)

    runs = {asyncio.create_task(run_child(child)): child for child in children if child not in restarts.skipped}
    try:
        stopped = await _wait_for_all(runs, waiting)
    finally:
        for run in runs:
            run.cancel()
    if stopped is not None:
        await context.stop_branch(branch)
        return msgspec.structs.replace(stopped, escalated=restarts.has_escalated)
    if not waiting:
        return Finished(escalated=restarts.has_escalated)
    await context.note({"waiting": waiting, "escalated": restarts.has_escalated, **restarts.progress()})
    call_ids = tuple(call_id for call_ids in waiting.values() for call_id in call_ids)
    return Paused(call_ids=call_ids, escalated=restarts.has_escalated)


async def _wait_for_all(runs: dict[asyncio.Task[AnyOutcome], str], waiting: dict[str, list[str]]) -> AnyOutcome | None:
    """Wait until every run has finished or paused; return the first outcome that is neither.

    Args:
        runs: tasks, by child.
        waiting: is brought up to date: the children that are paused, with the calls they wait for.
    """
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


class ChildRestarts:
    """The children of one run of a supervisor: which were restarted or skipped, and whether one has escalated.

    Args:
        context: its run, whose last note it goes on from.

    Attributes:
        begun: after which place of the log the run of a child began, for children that did not begin with the supervisor.
        skipped: children whose failure was skipped.
        has_escalated: the run of a child has escalated, before a pause or a loss, too: so no further child begins in a loop.
    """

    def __init__(self, spec: AgentSpec, context: Invocation) -> None:
        self._policy = cast(WorkflowAgent, spec.definition).supervision
        self._context = context
        self._one_by_one = asyncio.Lock()
        noted = context.progress
        child, decided = noted.get("child"), noted.get("decided")
        self._starts: dict[str, tuple[float, ...]] = {each: tuple(starts) for each, starts in noted.get("restarts", {}).items()}
        self._gave_up = decided == "escalate"
        self.skipped: list[str] = [*noted.get("skipped", ()), *([child] if decided == "skip" else ())]
        self.has_escalated = bool(noted.get("escalated"))
        self.begun: dict[str, int] = dict(noted.get("begun", {}))
        if child:
            self.begun[child] = int(noted.get("since", context.noted_seq))

    def forget_finished(self) -> None:
        """The next child of a sequence begins: of the children before it only the restarts count."""
        self.begun = {}
        self.skipped = []

    def progress(self, child: str | None = None) -> Progress:
        """The fields that every note has to repeat.

        Args:
            child: the note is about this child, and says itself where its run began.
        """
        begun = {each: seq for each, seq in self.begun.items() if each != child}
        kept = {"restarts": self._starts, "begun": begun, "skipped": self.skipped}
        return {name: value for name, value in kept.items() if value}

    async def wait_until_due(self, child: str) -> None:
        """Wait until the child may be restarted, if it is to be."""
        if child in self._starts:
            clock = self._context.clock
            starts = self._starts[child]
            # The clock may have been set back since, or be that of another machine.
            wait_s = min(starts[-1] - clock.now_s(), rules.backoff(self._policy).after_attempts(len(starts)))
            if wait_s > 0:
                await clock.sleep(wait_s)

    async def supervise(self, child: str, outcome: AnyOutcome, position: JsonMapping, branch: str | None = None) -> AnyOutcome:
        """Return how the run of a child ends at last, after as many restarts as it takes.

        Args:
            outcome: how its run has ended.
            position: how far the supervisor is, for the notes of its decisions.
            branch: on which the child runs, if not on the supervisor's own.
        """
        while True:
            self.has_escalated = self.has_escalated or outcome.escalated
            if not isinstance(outcome, Failed) or self._policy.strategy == "escalate":
                return outcome
            decided = await self._decide(child, outcome, position)
            if decided == "escalate":
                return outcome
            if decided == "skip":
                return Finished(agent=child)
            await self.wait_until_due(child)
            outcome = await self._context.run_child(child, branch=branch)

    async def _decide(self, child: str, failed: Failed, position: JsonMapping) -> rules.Strategy:
        # Each note repeats everything decided so far, so children that fail at the same time are dealt with one after the other.
        async with self._one_by_one:
            if self._gave_up:
                # The log says so already, and later decisions would not count.
                return "escalate"
            context = self._context
            decision = rules.decide(self._policy, child, failed, self._starts.get(child, ()), context.clock.now_s())
            is_restart = decision.strategy == "restart"
            if is_restart:
                self._starts[child] = decision.starts
            # A restarted run begins after its note. Any other decision leaves the beginning where it was.
            since = {} if is_restart else {"since": self.begun.get(child, 0)}
            decided = {"child": child, "decided": decision.strategy, "escalated": self.has_escalated, **since}
            custom_metadata = rules.record(self._policy, child, failed, decision)
            await context.note({**position, **decided, **self.progress(child)}, custom_metadata)
            if is_restart:
                self.begun[child] = context.noted_seq
            elif decision.strategy == "skip":
                self.skipped.append(child)
            else:
                self._gave_up = True
            return decision.strategy
