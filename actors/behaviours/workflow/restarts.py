"""What supervisors do about children that fail (semantics.md section 4, "Supervision").

Every decision is in the log before anything comes of it, in one event: people read it, and a supervisor that is lost reads there
what it had decided, and how often it has run a child again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from actors.definitions.agents.workflow import WorkflowAgent
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import SupervisorContext
from actors.messages.protocol.outcomes import AnyOutcome, Failed, Finished
from actors.rules.recovery import supervision


class ChildRestarts:
    """Over one run of a supervisor, what it has decided about its children.

    Attributes:
        begun: behind which place of the log the run of a child began, where that is not the beginning of the supervisor's own.
        skipped: children whose failure was passed over.
    """

    def __init__(self, spec: AgentSpec, context: SupervisorContext) -> None:
        self._policy = cast(WorkflowAgent, spec.definition).supervision
        self._context = context
        self._one_by_one = asyncio.Lock()
        noted = context.progress
        child, decided = noted.get("child"), noted.get("decided")
        self._starts: dict[str, tuple[float, ...]] = {each: tuple(starts) for each, starts in noted.get("restarts", {}).items()}
        self._given_up = decided == "escalate"
        self.skipped: list[str] = [*noted.get("skipped", ()), *([child] if decided == "skip" else ())]
        self.begun: dict[str, int] = dict(noted.get("begun", {}))
        if child:
            self.begun[child] = int(noted.get("since", context.noted_seq))

    def turns_to_next(self) -> None:
        """Of children that are run one after the other, another one begins: of those before only their restarts count."""
        self.begun = {}
        self.skipped = []

    def kept(self, child: str | None = None) -> dict[str, Any]:
        """What has to stand in every note of progress; without the beginning of the child that the note is about."""
        begun = {each: seq for each, seq in self.begun.items() if each != child}
        kept = {"restarts": self._starts, "begun": begun, "skipped": self.skipped}
        return {name: value for name, value in kept.items() if value}

    async def until_due(self, child: str) -> None:
        """Wait until the child may be run again."""
        if child in self._starts:
            clock = self._context.clock
            wait_s = self._starts[child][-1] - clock.now_s()
            if wait_s > 0:
                await clock.sleep(wait_s)

    async def settled(self, child: str, outcome: AnyOutcome, where: Mapping[str, Any], branch: str | None = None) -> AnyOutcome:
        """What comes of the run of a child in the end, after as many restarts as it takes.

        Args:
            outcome: how the run has ended.
            where: how far the supervisor is, to be noted beside what is decided.
            branch: on which the child runs, if not on the supervisor's own.
        """
        while isinstance(outcome, Failed) and self._policy.strategy != "escalate":
            decided = await self._decided(child, outcome, where)
            if decided == "escalate":
                return outcome
            if decided == "skip":
                return Finished(agent=child)
            await self.until_due(child)
            outcome = await self._context.run_child(child, branch=branch)
        return outcome

    async def _decided(self, child: str, failed: Failed, where: Mapping[str, Any]) -> supervision.Strategy:
        # Each note holds all that has been decided, so children that fail at the same time are dealt with one after the other.
        async with self._one_by_one:
            if self._given_up:
                # That is in the log already, and whatever else happens below counts no more.
                return "escalate"
            context = self._context
            decision = supervision.decide(self._policy, child, failed, self._starts.get(child, ()), context.clock.now_s())
            is_restart = decision.strategy == "restart"
            if is_restart:
                self._starts[child] = decision.starts
            # A restart begins behind its note. Any other decision leaves the beginning where it was.
            since = {} if is_restart else {"since": self.begun.get(child, 0)}
            told = {"child": child, "decided": decision.strategy, "escalated": context.escalated, **since}
            custom_metadata = supervision.record(self._policy, child, failed, decision)
            await context.note({**where, **told, **self.kept(child)}, custom_metadata)
            if is_restart:
                self.begun[child] = context.noted_seq
            elif decision.strategy == "skip":
                self.skipped.append(child)
            else:
                self._given_up = True
            return decision.strategy
