"""The Runner actor: it selects the agent of every turn and routes `transfer_to_agent` between agents.

It sees no event but the user's. It sends `Invoke` to one agent after the other and awaits their outcomes; supervisors ask it to
run their children, so that this is the one place that knows how an agent is run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from actors.actor import Actor, Handler
from actors.definitions.agents.plugin import Plugin
from actors.errors import (
    ActorLostError,
    FencedError,
    LlmCallsLimitExceededError,
    PluginFailedError,
    RaygroveError,
    RequestError,
)
from actors.errors.user_code import is_being_cancelled
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Directory
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode_event
from actors.messages.content import Content
from actors.messages.flow import CONTROLLER
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import Topology
from actors.refs.agent import AgentRef
from actors.refs.session import SessionRef
from actors.rules.checks import user_message as messages
from actors.rules.routing import resumption
from actors.rules.routing.selection import select_agent
from actors.runner.dispatch import Dispatch, failed
from actors.runner.opening_turns import OpeningTurns
from actors.runner.plugin_hooks import PluginHooks
from actors.runner.running_turn import Run, RunningTurn
from actors.runner.user_message import PreparedMessage, UserMessages, agent_for, saves, user_event

logger = logging.getLogger(__name__)

CANCEL_AGAIN_S = 0.1
"""A turn that is being opened may reach the line just behind the one who takes it out: that one comes again."""


class RunnerActor(Actor):
    """See the head of this file.

    Args:
        session: the Session actor.
        directory: who makes agents' actors live.
        artifacts: where data in users' messages goes.
        name: for messages and statistics.
        plugins: the deployment's, whose hooks around turns are called here.
        app: whose open turns it takes up when its process was lost and started again.
        limits: how large an event may be.
        share: the sessions whose turns it runs. Those of the others are run by other Runners.
    """

    def __init__(
        self,
        session: SessionRef,
        directory: Directory,
        artifacts: ArtifactStore,
        name: str = "runner",
        plugins: Sequence[Plugin] = (),
        app: str = "",
        limits: Limits = DEFAULT_LIMITS,
        share: Shard = ONLY_SHARD,
    ) -> None:
        super().__init__(name)
        self._app = app
        self._share = share
        self._me = f"{name}/{uuid.uuid4().hex}"
        self._session = session
        self._directory = directory
        self._hooks = PluginHooks(plugins, session, artifacts)
        self._intake = UserMessages(session, directory, artifacts, self._hooks, limits)
        self._counts = Counter(turns=0, invocations=0, transfers=0)
        self._dispatch = Dispatch(session, directory, self._counts, may_close=not self._hooks.at_end)
        self._turns: dict[tuple[SessionKey, str], RunningTurn] = {}
        self._openings = OpeningTurns()
        self._saving: dict[tuple[SessionKey, str], asyncio.Task[PreparedMessage]] = {}
        self._taking: dict[tuple[SessionKey, str], asyncio.Lock] = {}

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that the Runner takes."""
        return {
            p.StartTurn: self.start_turn,
            p.RecoverTurns: self.take_over,
            p.RecoverTurn: self.recover_turn,
            p.CancelTurn: self.cancel_turn,
            p.RunChild: self.run_child,
            p.StopBranch: self.stop_branch,
            p.TakeLlmCall: self.take_llm_call,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    # ------------------------------------------------------------------------------------------------- starting a turn
    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Check the message, select the agent, store the message and let the agent run."""
        with self._openings.opening((message.key, message.invocation_id)):
            return await self._start_turn(message)

    async def _start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        topology = await self._tree()
        content = messages.checked(message.content)
        if message.repeatable and saves(message, content) and not messages.answers(content):
            return await self._start_once(topology, message, content)
        return await self._start(topology, message, await self._intake.prepare(topology, message, content))

    async def _start_once(self, topology: Topology, message: p.StartTurn, content: Content) -> p.TurnStarted:
        """Start or join a turn whose message has data to save; however often it is asked for, the data is saved once.

        Who asks while another is about to open the turn shares what that one has saved; who asks later finds the turn.
        """
        where = (message.key, message.invocation_id)
        if where not in self._saving:
            self._saving[where] = asyncio.create_task(self._intake.prepare(topology, message, content))
        saving = self._saving[where]
        try:
            prepared = await asyncio.shield(saving)
            if not prepared.found.is_there:
                return await self._start(topology, message, prepared)
        finally:
            if self._saving.get(where) is saving:
                del self._saving[where]
        # Not opened but followed: should it be rewound at this moment, it must not begin with the data in its message.
        status = await self._session.subscribe(
            p.Subscribe(subscriber=message.subscriber, key=message.key, invocation_id=message.invocation_id)
        )
        if status == "lost":
            await self._take_up(message.key, message.invocation_id)
        return self._joined(message.key, message.invocation_id, prepared.found.agent)

    async def _start(self, topology: Topology, message: p.StartTurn, prepared: PreparedMessage) -> p.TurnStarted:
        """Store the message and let the agent run, or join the turn that is there."""
        found, content, actions = prepared
        invocation_id = found.invocation_id or message.invocation_id
        running = self._turns.get((message.key, invocation_id))
        if running is not None and message.event_id and running.event_id == message.event_id:
            # Asked again: it was taken up already.
            return p.TurnStarted(invocation_id=invocation_id, agent=running.agent, attached=True, seq=running.user_event.seq)
        message = msgspec.structs.replace(message, state_delta={**message.state_delta, **actions.state_delta})
        raw = encode_event(user_event(message, content, invocation_id, actions.artifact_delta))
        with self._openings.opening((message.key, invocation_id)):
            opened = await self._opened(message, invocation_id, content, raw)
        match opened:
            case p.TurnJoined():
                if opened.is_lost:
                    await self._take_up(message.key, invocation_id)
                joined = self._joined(message.key, invocation_id, opened.agent)
                return msgspec.structs.replace(joined, seq=opened.seq)
            case p.TurnResumed():
                agent = self._go_on(message.key, invocation_id, opened)
                return p.TurnStarted(invocation_id=invocation_id, agent=agent, seq=opened.seq)
        agent = agent_for(topology, message, opened.authors, found.caller)
        turn = RunningTurn(p.TurnRef(message.key, invocation_id, opened.epoch), agent, opened, raw, message.config)
        turn.flow = message.flow
        turn.event_id = message.event_id
        turn.content = content
        turn.goes_on = bool(messages.answers(content))
        if opened.progress is not None:
            turn.callers = self._callers(opened.progress)
        self._launch(turn)
        # The agent first: the driver does not wait for this reply.
        await asyncio.sleep(0)
        return p.TurnStarted(invocation_id=invocation_id, agent=agent, seq=opened.seq)

    def _joined(self, key: SessionKey, invocation_id: str, agent: str) -> p.TurnStarted:
        running = self._turns.get((key, invocation_id))
        return p.TurnStarted(invocation_id=invocation_id, agent=running.agent if running else agent, attached=True)

    async def _opened(
        self, message: p.StartTurn, invocation_id: str, content: Content, raw: bytes
    ) -> p.TurnBegun | p.TurnResumed | p.TurnJoined:
        request = p.OpenTurn(
            key=message.key,
            invocation_id=invocation_id,
            repeatable=message.repeatable,
            event=raw,
            answers=messages.answers(content),
            state_delta=message.state_delta,
            auto_create=message.auto_create,
            config=message.config,
            subscriber=message.subscriber,
            runner=self._me,
        )
        while True:
            opened = await self._session.open_turn(request) if not request.interrupting else await self._interrupt(request)
            match opened:
                case p.InterruptFirst():
                    request = msgspec.structs.replace(request, interrupting=opened.invocation_id)
                case p.ResumeFirst():
                    await self._take_up(message.key, opened.invocation_id)
                case _:
                    return opened

    async def _interrupt(self, request: p.OpenTurn) -> p.OpenTurnReply:
        """Cancel the running turn, and have the new one stand at the head of the line by then, before those that wait there."""
        stop = p.CancelTurn(key=request.key, invocation_id=request.interrupting)
        opened, stopped = await asyncio.gather(self._session.open_turn(request), self.cancel_turn(stop), return_exceptions=True)
        if isinstance(stopped, BaseException):
            logger.error("turn %s could not be interrupted: %s", request.interrupting, stopped)
        if isinstance(opened, BaseException):
            raise opened
        return opened

    # ------------------------------------------------------------------------------------------------- running a turn
    def _launch(self, turn: RunningTurn) -> None:
        self._turns[turn.ref.key, turn.ref.invocation_id] = turn
        self._counts["turns"] += 1
        turn.task = asyncio.create_task(self._run(turn))

    async def _run(self, turn: RunningTurn) -> None:
        outcome: p.AnyOutcome
        try:
            async with asyncio.timeout(turn.config.timeout):
                outcome = await self._whole(turn)
        except TimeoutError:
            outcome = p.Cancelled(agent=turn.agent, timeout_s=turn.config.timeout)
        except asyncio.CancelledError:
            outcome = p.Cancelled(agent=turn.agent)
        except RaygroveError as error:
            outcome = failed(turn.agent, error)
        except Exception as error:
            # The border of the turn: whatever went wrong here, its driver has to be told that it has ended.
            logger.exception("turn %s failed in the Runner", turn.ref.invocation_id)
            outcome = failed(turn.agent, RaygroveError(f"the Runner failed: {type(error).__name__}: {error}"))
        turn.stop_waiting()
        if turn.runs:
            await self._dispatch.stop(turn, list(turn.runs.values()))
        where = (turn.ref.key, turn.ref.invocation_id)
        if self._turns.get(where) is turn:
            del self._turns[where]
        if isinstance(outcome, p.Finished) and outcome.closed:
            return
        try:
            await self._session.close_turn(p.CloseTurn(turn=turn.ref, agent=turn.agent, outcome=outcome))
        except FencedError:
            # Somebody else has taken the turn up, and closes it.
            pass
        except RaygroveError as error:
            logger.error("the record of turn %s could not be written: %s", turn.ref.invocation_id, error)

    async def _whole(self, turn: RunningTurn) -> p.AnyOutcome:
        """A turn from its beginning to its end, with the plugins' hooks around it."""
        try:
            if turn.goes_on or turn.is_resumed or not await self._begins(turn):
                outcome = await self._dispatch.turn(turn)
            else:
                outcome = p.Finished(agent=turn.agent)
            if isinstance(outcome, p.Finished) and not outcome.closed:
                left = await self._hooks.after(turn.ref, turn.agent, turn.content)
                if left is not None:
                    await self._dispatch.append(turn, turn.agent, left)
        except (PluginFailedError, RequestError) as error:
            # The latter when what a hook has left cannot be stored.
            return await self._dispatch.fail(turn, turn.agent, error, None)
        return outcome

    async def _begins(self, turn: RunningTurn) -> bool:
        """True when a plugin has said at the beginning all that there is to say."""
        left = await self._hooks.before(turn.ref, turn.agent, turn.content, turn.state)
        if left is None:
            return False
        # The log and the state are not any more what they were when the turn was opened.
        turn.is_fresh = False
        await self._dispatch.append(turn, turn.agent, left)
        return left.content is not None

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool."""
        turn, asker = self._asked_by(message.turn)
        task = asyncio.create_task(self._dispatch.child(turn, asker, message))
        turn.asks(task, message.branch, asker)
        try:
            outcome = await task
            return msgspec.structs.replace(outcome, state_seq=turn.state_seq)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            return p.Cancelled(agent=message.child)
        finally:
            turn.answered(task)

    async def stop_branch(self, message: p.StopBranch) -> p.Ack:
        """Stop what runs on a branch or below, wherever it runs; or all that a run has asked for."""
        turn, asker = self._asked_by(message.turn)
        if message.branch:
            runs = turn.on_branch(message.branch)
            turn.stop_waiting(on_branch=message.branch)
        else:
            runs = [run for run in turn.below(asker) if run is not asker]
            turn.stop_waiting(below=asker)
        await self._dispatch.stop(turn, runs)
        return p.Ack()

    async def take_llm_call(self, message: p.TakeLlmCall) -> p.Ack:
        """Count one model call of a run below a supervisor."""
        turn, _ = self._asked_by(message.turn)
        if turn.llm_calls_left() <= 0:
            raise LlmCallsLimitExceededError(message.agent, turn.config.max_llm_calls)
        turn.llm_calls += 1
        return p.Ack()

    def _asked_by(self, ref: p.TurnRef) -> tuple[RunningTurn, Run]:
        """The turn, and the run in it that asks. Raises FencedError when one of them has ended or was given up."""
        turn = self._turns.get((ref.key, ref.invocation_id))
        if turn is None or turn.ref.epoch != ref.epoch or ref.run not in turn.runs:
            raise FencedError(ref.invocation_id, ref.epoch)
        return turn, turn.runs[ref.run]

    # ------------------------------------------------------------------------------------------------- after a loss
    async def take_over(self, _: p.RecoverTurns) -> p.Ack:
        """Go on with the turns that the Runner had when its process was lost."""
        await self._tree()
        # Each by itself: one that is away, lost with the same node perhaps, keeps no turn waiting that another has.
        await asyncio.gather(*(self._take_over_from(session) for session in self._session.shards))
        return p.Ack()

    async def _take_over_from(self, session: SessionRef) -> None:
        """Go on with the turns that are open in the sessions of one Session actor, as far as they are this Runner's."""
        open_turns = await session.list_open_turns(p.ListOpenTurns(app=self._app, runner=self._me, shard=self._share))
        for key, invocation_id in open_turns:
            await self._take_up(key, invocation_id)

    async def recover_turn(self, message: p.RecoverTurn) -> p.Ack:
        """See that a turn runs, if it has not ended."""
        await self._tree()
        if (message.key, message.invocation_id) not in self._openings:
            await self._take_up(message.key, message.invocation_id)
        return p.Ack()

    async def _take_up(self, key: SessionKey, invocation_id: str) -> None:
        where = (key, invocation_id)
        running = self._turns.get(where)
        epoch = running.ref.epoch if running is not None else 0
        try:
            async with self._taking.setdefault(where, asyncio.Lock()):
                if running is None and where in self._turns:
                    return
                reply = await self._session.resume_turn(
                    p.ResumeTurn(key=key, invocation_id=invocation_id, runner=self._me, epoch=epoch)
                )
                if isinstance(reply, p.TurnResumed):
                    self._go_on(key, invocation_id, reply)
        finally:
            self._taking.pop(where, None)

    def _go_on(self, key: SessionKey, invocation_id: str, opened: p.TurnResumed) -> str:
        """Run a turn that was open already. Returns its agent."""
        before = self._turns.get((key, invocation_id))
        if before is not None and before.task is not None:
            if before.ref.epoch >= opened.epoch:
                # Taken up twice at the same time, and this reply came last.
                return before.agent
            # What it writes is refused from now on, the end of the turn, too.
            before.task.cancel()
        topology = self._dispatch.topology
        event = decode_event(opened.event, opened.seq)
        agent = select_agent(topology, opened.authors, opened.caller)
        if event.flow is not None or CONTROLLER in opened.progress.progress:
            agent = CONTROLLER
        turn = RunningTurn(p.TurnRef(key, invocation_id, opened.epoch), agent, opened, opened.event, opened.config)
        turn.flow = event.flow.run if event.flow is not None else ""
        turn.event_id = event.id
        turn.content = event.content or Content()
        turn.heard(opened.progress, topology)
        turn.goes_on = bool(opened.caller)
        # Of one that nobody has begun to run, everything is still to be done.
        turn.is_resumed = turn.goes_on or opened.progress.head_seq > opened.seq
        turn.callers = self._callers(opened.progress)
        self._launch(turn)
        return agent

    def _callers(self, so_far: p.TurnProgress) -> list[str]:
        """Who waits for what the message answers, as far as it is in the tree; of a flow its controller."""
        topology = self._dispatch.topology
        in_tree = [caller for caller in so_far.callers if topology.find(caller) is not None and not topology.is_beside(caller)]
        return resumption.through_flows(in_tree, so_far)

    # ------------------------------------------------------------------------------------------------- stopping
    async def cancel_turn(self, message: p.CancelTurn) -> p.Ack:
        """Stop a turn that runs, waits in line or is about to begin; returns when it is closed."""
        where = (message.key, message.invocation_id)
        while (turn := self._turns.get(where)) is None or turn.task is None:
            await self._session.cancel_turn(message)
            if where not in self._openings and where not in self._turns:
                return p.Ack()
            await self._openings.over(where, CANCEL_AGAIN_S)
        if not turn.is_cancelled:
            turn.is_cancelled = True
            turn.task.cancel()
        await asyncio.wait([turn.task])
        return p.Ack()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what has been done, here and by every live agent."""
        agents = []
        for agent, link in self._directory.live():
            try:
                agents.append(msgspec.structs.replace(await AgentRef(link).statistics(), agent=agent))
            except ActorLostError:
                self._directory.forget(agent, link)
        counts = {**self._counts, "running": len(self._turns), **self._directory.counts()}
        spares = self._directory.spare_pids()
        return p.Statistics(actor=self.name, pid=os.getpid(), counts=counts, agents=agents, spare_pids=spares)

    async def stop(self, _: p.Stop) -> p.Ack:
        """Cancel what runs, and stop every agent."""
        for key, invocation_id in list(self._turns):
            await self.cancel_turn(p.CancelTurn(key=key, invocation_id=invocation_id))
        await self._directory.close()
        return p.Ack()

    async def _tree(self) -> Topology:
        if not self._dispatch.topology.nodes:
            self._dispatch.topology = await self._session.topology()
        return self._dispatch.topology
