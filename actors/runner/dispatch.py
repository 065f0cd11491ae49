"""How agents are run: sent to their actors, handed over to, begun again after a loss, and stopped.

Whoever wants an agent run, the Runner for a turn or a supervisor for a child, comes through here: so there is one place that
counts transfers, that fences what was lost, and that says when an agent has been lost too often.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from actors.errors import (
    ActorLostError,
    ClusterError,
    FencedError,
    RaygroveError,
    TransferLimitExceededError,
    TransferTargetError,
)
from actors.interfaces.transport import Directory, Link
from actors.messages import protocol as p
from actors.messages.codec import encode_event
from actors.messages.event import Event, new_event_id, now_s
from actors.messages.flow import CONTROLLER, Work
from actors.messages.topology import CUSTOM, Topology
from actors.refs.agent import AgentRef
from actors.refs.session import SessionRef
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.recovery.failures import failure
from actors.rules.routing import resumption
from actors.rules.routing.transfer import route_refusal
from actors.runner.running_turn import Run, RunningTurn, numbers

DEATHS = 3
"""An agent whose actor is lost so often in one turn takes its next process along, too: the turn fails."""

STOP_S = 0.8
"""An actor that has not stopped a run after so long does not listen any more, and is replaced."""


class Dispatch:
    """Runs agents.

    Args:
        session: the Session actor.
        directory: who makes agents' actors live.
        counts: the Runner's figures.
        may_close: the last event of a turn's last run may carry the end of the turn.
    """

    def __init__(self, session: SessionRef, directory: Directory, counts: Counter[str], *, may_close: bool) -> None:
        self._session = session
        self._directory = directory
        self._counts = counts
        self._may_close = may_close
        self.topology = Topology(())

    # ------------------------------------------------------------------------------------------------- running
    async def turn(self, turn: RunningTurn) -> p.AnyOutcome:
        """Run the agent of a turn, or whoever stands where the turn goes on."""
        agent = self._entry(turn, turn.agent, scope=None)
        if turn.is_resumed:
            # What the log tells of each run is all that counts now, answers included.
            turn.callers = []
        return await self._run(turn, agent, branch=None, scope=None, asker=None, asked=turn.user_event, resume=turn.is_resumed)

    async def child(self, turn: RunningTurn, asker: Run, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool."""
        if message.work is not None:
            run = Run(message.child, message.branch, asker, None)
            return await self._invoke(turn, run, message.user_event or turn.user_event, resume=False, work=message.work)
        return await self._run(
            turn,
            self._entry(turn, message.child, scope=message.child),
            branch=message.branch,
            scope=message.child,
            asker=asker,
            asked=message.user_event or turn.user_event,
            resume=message.resume,
        )

    async def _run(
        self,
        turn: RunningTurn,
        agent: str,
        *,
        branch: str | None,
        scope: str | None,
        asker: Run | None,
        asked: p.StoredEvent,
        resume: bool,
    ) -> p.AnyOutcome:
        """Run an agent, and whomever it hands over to.

        Args:
            scope: the child of a workflow, or the tool agent, within which transfers have to stay; None for the turn's own agent.
            asked: what the user says, or whoever asks.
            resume: it was begun before: transfers that the log has are not made again, but gone through.
        """
        escalated = False
        outcome: p.AnyOutcome
        handed_over: int | None = None
        while True:
            run = Run(agent, branch, asker, handed_over)
            made = self._made(turn, run) if resume else None
            if made is not None:
                outcome = p.Transfer(agent=agent, to=made.to, seq=made.seq)
            else:
                outcome = await self._invoke(turn, run, asked, resume=resume)
                resume = False
            escalated = escalated or outcome.escalated
            if not isinstance(outcome, p.Transfer):
                return msgspec.structs.replace(outcome, escalated=escalated)
            refused = self._refused(turn, outcome, scope)
            if refused is not None:
                return await self.fail(turn, agent, refused, branch)
            turn.transfers += 1
            self._counts["transfers"] += 1
            agent, handed_over = outcome.to, outcome.seq

    def _made(self, turn: RunningTurn, run: Run) -> p.TransferRecord | None:
        """The transfer by which a run has ended already, as far as the log tells."""
        so_far = turn.so_far
        return resumption.handover(so_far, run.agent, run.branch, self._since(turn, run)) if so_far is not None else None

    def _since(self, turn: RunningTurn, run: Run) -> int:
        """The place of the log behind which a run's own events stand, as last heard."""
        if run.handed_over is not None:
            return run.handed_over
        if run.asker is None:
            return turn.first_seq
        noted = turn.so_far.progress.get(run.asker.agent) if turn.so_far is not None else None
        return resumption.begun_behind(noted, run.agent, self._since(turn, run.asker))

    def _entry(self, turn: RunningTurn, agent: str, *, scope: str | None) -> str:
        """The agent to begin with, so that answers reach those who asked: `agent` when they are not at or below it."""
        callers = [caller for caller in turn.callers if scope is None or self.topology.is_below(caller, scope)]
        return resumption.entry(self.topology, callers[0], scope) if callers else agent

    def _resume_at(self, turn: RunningTurn, agent: str) -> tuple[str, ...]:
        """Where a run of the agent goes on that was paused: see Context. An agent that is reached is not resumed again."""
        if agent in turn.callers:
            turn.callers = [caller for caller in turn.callers if caller != agent]
            return (agent,)
        towards = (resumption.child_towards(self.topology, agent, caller) for caller in turn.callers)
        return tuple(dict.fromkeys(child for child in towards if child is not None))

    def _refused(self, turn: RunningTurn, asked: p.Transfer, scope: str | None) -> RaygroveError | None:
        reason = route_refusal(self.topology, asked.to, scope)
        if reason is not None:
            return TransferTargetError(asked.agent, asked.to, reason)
        if turn.transfers >= turn.config.max_transfers:
            return TransferLimitExceededError(asked.agent, asked.to, turn.config.max_transfers)
        return None

    async def _invoke(
        self, turn: RunningTurn, run: Run, asked: p.StoredEvent, *, resume: bool, work: Work | None = None
    ) -> p.AnyOutcome:
        """One run of one agent, by as many actors as it takes."""
        agent = run.agent
        resume_at = self._resume_at(turn, agent) if turn.callers else ()
        # A pause ends a custom agent's code as a loss does: it begins again, and what it has said before is not said again.
        resume = resume or (bool(resume_at) and self.topology[agent].kind == CUSTOM)
        # A round of a flow has one model call, which is counted beforehand; what it did not take is given back.
        counted = min(1, turn.llm_calls_left()) if work is not None else 0
        turn.llm_calls += counted
        while True:
            turn.begin(run)
            self._counts["invocations"] += 1
            message = self._message(turn, run, asked, resume_at, resume=resume)
            if work is not None:
                message = msgspec.structs.replace(message, work=work, llm_calls=counted)
            try:
                run.link = await self._directory.link(agent, turn.ref.key)
                outcome = await AgentRef(run.link).invoke(message)
            except ActorLostError as error:
                try:
                    await self._give_up(turn, run)
                except FencedError:
                    # It was the last thing that the actor did to end the turn.
                    return p.Finished(agent=agent, closed=True)
                if turn.deaths[agent] >= DEATHS:
                    return await self.fail(turn, agent, error, run.branch)
                run = Run(agent, run.branch, run.asker, run.handed_over)
                resume = True
            except ClusterError as error:
                turn.end([run])
                return await self.fail(turn, agent, error, run.branch)
            else:
                turn.end([run])
                turn.llm_calls += outcome.llm_calls - counted
                turn.state_seq = max(turn.state_seq, outcome.state_seq)
                return outcome

    def _message(
        self, turn: RunningTurn, run: Run, asked: p.StoredEvent, resume_at: tuple[str, ...], *, resume: bool
    ) -> p.Invoke:
        is_fresh, turn.is_fresh = turn.is_fresh, False
        is_nested = run.asker is not None
        since = self._since(turn, run) if resume else 0
        noted_seq: int = 0
        progress: dict[str, Any] = {}
        if turn.so_far is not None and (resume_at or resume):
            noted_seq, progress = resumption.progress(turn.so_far, run.agent, since)
        if turn.flow and run.agent == CONTROLLER:
            progress = {**progress, "definition": turn.flow}
        return p.Invoke(
            turn=turn.by(run),
            agent=run.agent,
            branch=run.branch,
            user_event=asked,
            fresh=is_fresh,
            generation=turn.generation,
            state=turn.state if is_fresh else b"",
            state_seq=turn.state_seq,
            streaming=turn.config.streaming == "sse",
            # Runs that are nested, or have others nested in them, may go on side by side, so each of their calls is counted here.
            llm_calls=None if is_nested or self.topology[run.agent].tool_agents else turn.llm_calls_left(),
            llm_limit=turn.config.max_llm_calls,
            closes=turn.agent if self._may_close and not is_nested else "",
            resume_at=resume_at if not resume or self.topology[run.agent].kind == CUSTOM else (),
            progress=progress,
            noted_seq=noted_seq,
            resume=resume,
            since=since,
        )

    # ------------------------------------------------------------------------------------------------- losing
    async def _give_up(self, turn: RunningTurn, run: Run) -> None:
        """A run was lost with its actor: end what it had asked for, and let none of that write any more. Raises FencedError."""
        if run.link is not None:
            self._directory.forget(run.agent, run.link)
        turn.deaths[run.agent] += 1
        lost = turn.below(run)
        turn.end(lost)
        turn.stop_waiting(below=run)
        await self.stop(turn, [each for each in lost if each is not run])
        turn.heard(await self._session.abandon_runs(p.AbandonRuns(turn=turn.ref, lost=numbers(lost))), self.topology)

    async def fail(self, turn: RunningTurn, agent: str, error: RaygroveError, branch: str | None) -> p.Failed:
        """Leave the event of a failure that the agent cannot leave itself."""
        outcome = failed(agent, error)
        await self.append(turn, agent, Event(branch=branch, error_code=outcome.error_code, error_message=outcome.error_message))
        return outcome

    async def append(self, turn: RunningTurn, author: str, event: Event) -> None:
        """Store an event that is made in the Runner."""
        changed = event.actions.state_delta
        actions = msgspec.structs.replace(event.actions, state_delta=without_temp(changed))
        whole = msgspec.structs.replace(
            event, id=new_event_id(), invocation_id=turn.ref.invocation_id, author=author, timestamp=now_s(), actions=actions
        )
        await self._session.append(p.Append(turn=turn.ref, events=[encode_event(whole)], temp=only_temp(changed)))

    # ------------------------------------------------------------------------------------------------- stopping
    async def stop(self, turn: RunningTurn, runs: Sequence[Run]) -> None:
        """Stop runs, all at the same time. An actor that does not answer is replaced: it would hold up every later turn."""
        by_actor: dict[tuple[str, Link], list[Run]] = {}
        for run in runs:
            if run.link is not None:
                by_actor.setdefault((run.agent, run.link), []).append(run)
        await asyncio.gather(*(self._stop_at(turn, agent, link, stopped) for (agent, link), stopped in by_actor.items()))
        turn.end(runs)

    async def _stop_at(self, turn: RunningTurn, agent: str, link: Link, runs: Iterable[Run]) -> None:
        stop = p.StopRun(turn=turn.ref, runs=numbers(list(runs)))
        with suppress(ActorLostError):
            try:
                async with asyncio.timeout(STOP_S):
                    await AgentRef(link).stop_run(stop)
            except TimeoutError:
                self._directory.forget(agent, link)


def failed(agent: str, error: RaygroveError) -> p.Failed:
    """The outcome of a run that one of this project's own errors has ended."""
    return msgspec.structs.replace(failure(error), agent=agent)
