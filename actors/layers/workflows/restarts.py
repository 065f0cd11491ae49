"""What a supervisor does about children that fail (semantics.md section 4, "Supervision").

Each decision is stored, in one event, before it is carried out: people read it, and a supervisor that was lost reads there what
it had decided, and how often it has restarted a child.
"""

from __future__ import annotations

import asyncio
from typing import cast

from actors.agent.invocation import Invocation
from actors.definitions.tree.spec import AgentSpec
from actors.layers.workflows import rules
from actors.layers.workflows.definitions import WorkflowAgent
from actors.messages.json_types import JsonMapping, Progress
from actors.messages.protocol.outcomes import AnyOutcome, Failed, Finished


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
