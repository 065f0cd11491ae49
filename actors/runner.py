"""The Runner actor: it selects the agent of every turn and routes `transfer_to_agent` between agents.

It sees no event but the user's. It sends `Invoke` to one agent after the other and awaits their outcomes; supervisors ask it to
run their children, so that this is the one place that knows how an agent is run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from actors.actor import Actor, Handler, Ref, is_being_cancelled
from actors.agent import AgentRef
from actors.agents.plugin import Plugin
from actors.errors import (
    ActorLostError,
    ClusterError,
    FencedError,
    LlmCallsLimitExceededError,
    ModelConfigurationError,
    PluginFailedError,
    RaygroveError,
    TransferLimitExceededError,
    TransferTargetError,
)
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Directory
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.content import Content, Part
from actors.messages.event import USER, Event, EventActions, new_event_id, now_s
from actors.messages.flow import CONTROLLER, Work
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.messages.wire import encode
from actors.rules import messages, resumption
from actors.rules.contents import is_below_branch
from actors.rules.selection import select_agent
from actors.rules.state import only_temp, without_temp
from actors.rules.transfer import route_refusal
from actors.session import SessionRef
from actors.turnhooks import TurnHooks

logger = logging.getLogger(__name__)

UNLIMITED = 2**31


class RunnerRef(Ref):
    """A client of the Runner actor."""

    async def start_turn(self, message: p.StartTurn) -> p.TurnStarted:
        """Run a turn; returns when it is open. Raises what is wrong with it, nothing being stored then."""
        return await self._ask(message, p.TurnStarted)

    async def cancel_turn(self, message: p.CancelTurn) -> None:
        """Stop a turn; returns when its log is sealed."""
        await self._ask(message, p.Done)

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent below a supervisor and return how it ended. Raises UnknownAgentError, FencedError."""
        return cast(p.AnyOutcome, await self._ask(message, p.Outcome))

    async def stop_branch(self, message: p.StopBranch) -> None:
        """Stop every run on a branch. Raises FencedError."""
        await self._ask(message, p.Done)

    async def take_llm_call(self, message: p.TakeLlmCall) -> None:
        """Count a model call. Raises LlmCallsLimitExceededError."""
        await self._ask(message, p.Done)

    async def statistics(self) -> p.Statistics:
        """What it has done, and what every live agent has."""
        return await self._ask(p.GetStatistics(), p.Statistics)

    async def stop(self) -> None:
        """Cancel the turns that run, and stop every agent."""
        await self._ask(p.Stop(), p.Done)


class _Turn:
    """A turn that runs."""

    def __init__(self, ref: p.TurnRef, agent: str, opened: p.TurnOpened, user_event: p.StoredEvent, config: RunConfig) -> None:
        self.ref = ref
        self.agent = agent
        self.user_event = user_event
        self.config = config
        self.generation = opened.generation
        self.state = opened.state
        self.is_fresh = True
        self.llm_calls = 0
        self.transfers = 0
        self.content = Content()
        self.goes_on = False
        self.agents: set[str] = set()
        self.callers: list[str] = []
        self.progress = opened.progress
        self.nested: dict[asyncio.Task[p.AnyOutcome], str | None] = {}
        self.is_cancelled = False
        self.task: asyncio.Task[None] | None = None

    def llm_calls_left(self) -> int:
        limit = self.config.max_llm_calls
        return UNLIMITED if limit <= 0 else limit - self.llm_calls


class RunnerActor(Actor):
    """See the head of this file.

    Args:
        session: the Session actor.
        directory: who makes agents' actors live.
        artifacts: where data in users' messages goes.
        name: for messages and statistics.
        plugins: the deployment's, whose hooks around turns are called here.
    """

    def __init__(
        self,
        session: SessionRef,
        directory: Directory,
        artifacts: ArtifactStore,
        name: str = "runner",
        plugins: Sequence[Plugin] = (),
    ) -> None:
        super().__init__(name)
        self._session = session
        self._directory = directory
        self._artifacts = artifacts
        self._hooks = TurnHooks(plugins, session, artifacts)
        self._topology: Topology | None = None
        self._turns: dict[tuple[SessionKey, str], _Turn] = {}
        self._saving: dict[tuple[SessionKey, str], asyncio.Task[tuple[p.TurnFound, Content]]] = {}
        self._counts = {"turns": 0, "invocations": 0, "transfers": 0}

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that the Runner takes."""
        return {
            p.StartTurn: self.start_turn,
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
        topology = await self._tree()
        content = messages.checked(message.content)
        if message.repeatable and _saves(message, content) and not _answers(content):
            return await self._start_once(topology, message, content)
        found = await self._looked_ahead(topology, message, content)
        content = await self._without_blobs(message, content, found.invocation_id or message.invocation_id)
        return await self._start(topology, message, content, found)

    async def _start_once(self, topology: Topology, message: p.StartTurn, content: Content) -> p.TurnStarted:
        """Start or join a turn whose message has data to save; however often it is asked for, the data is saved once.

        Who asks while another is about to open the turn shares what that one has saved; who asks later finds the turn.
        """
        where = (message.key, message.invocation_id)
        if where not in self._saving:
            self._saving[where] = asyncio.create_task(self._found_or_saved(topology, message, content))
        saving = self._saving[where]
        try:
            found, content = await asyncio.shield(saving)
            if not found.is_there:
                return await self._start(topology, message, content, found)
        finally:
            if self._saving.get(where) is saving:
                del self._saving[where]
        # Not opened but followed: should it be rewound at this moment, it must not begin with the data in its message.
        await self._session.subscribe(
            p.Subscribe(subscriber=message.subscriber, key=message.key, invocation_id=message.invocation_id)
        )
        return self._joined(message.key, message.invocation_id, found.agent)

    async def _found_or_saved(self, topology: Topology, message: p.StartTurn, content: Content) -> tuple[p.TurnFound, Content]:
        found = await self._looked_ahead(topology, message, content)
        if not found.is_there:
            content = await self._without_blobs(message, content, message.invocation_id)
        return found, content

    async def _start(self, topology: Topology, message: p.StartTurn, content: Content, found: p.TurnFound) -> p.TurnStarted:
        """Store the message and let the agent run, or join the turn that is there."""
        invocation_id = found.invocation_id or message.invocation_id
        selected = CONTROLLER if message.flow else select_agent(topology, found.authors, found.caller)
        content, actions = await self._hooks.heard(message.key, invocation_id, selected, content, message.state_delta)
        message = msgspec.structs.replace(message, state_delta={**message.state_delta, **actions.state_delta})
        raw = encode(self._user_event(message, content, invocation_id, actions.artifact_delta))
        opened = await self._opened(message, invocation_id, content, raw)
        if opened.attached:
            return self._joined(message.key, invocation_id, opened.agent)
        agent = CONTROLLER if message.flow else select_agent(topology, opened.authors, found.caller)
        ref = p.TurnRef(message.key, invocation_id, opened.epoch)
        turn = _Turn(ref, agent, opened, p.StoredEvent(opened.seq, raw), message.config)
        turn.content = content
        turn.goes_on = bool(_answers(content))
        callers = [caller for caller in opened.callers if topology.find(caller) and not topology.is_beside(caller)]
        turn.callers = resumption.through_flows(callers, opened.progress)
        if message.flow:
            turn.progress = {**turn.progress, CONTROLLER: {**turn.progress.get(CONTROLLER, {}), "definition": message.flow}}
        self._turns[message.key, invocation_id] = turn
        self._counts["turns"] += 1
        turn.task = asyncio.create_task(self._run(turn))
        # The agent first: the driver does not wait for this reply.
        await asyncio.sleep(0)
        return p.TurnStarted(invocation_id=invocation_id, agent=agent)

    def _joined(self, key: SessionKey, invocation_id: str, agent: str) -> p.TurnStarted:
        running = self._turns.get((key, invocation_id))
        return p.TurnStarted(invocation_id=invocation_id, agent=running.agent if running else agent, attached=True)

    async def _looked_ahead(self, topology: Topology, message: p.StartTurn, content: Content) -> p.TurnFound:
        """What must be known before the message is stored; for a plain one, which can only succeed, nothing."""
        answers = _answers(content)
        saves = _saves(message, content)
        if not (answers or saves or self._directory.obstacles or self._hooks.on_message):
            return p.TurnFound(authors=())
        repeated = message.invocation_id if message.repeatable and saves else ""
        found = await self._session.find_turn(
            p.FindTurn(key=message.key, call_ids=answers, invocation_id=repeated, auto_create=message.auto_create)
        )
        agent = CONTROLLER if message.flow else select_agent(topology, found.authors, found.caller)
        if agent in self._directory.obstacles:
            raise ModelConfigurationError(*self._directory.obstacles[agent])
        return found

    async def _without_blobs(self, message: p.StartTurn, content: Content, invocation_id: str) -> Content:
        """The message with its inline data moved to the artifact store, if that is wanted."""
        if not _saves(message, content):
            return content
        parts: list[Part] = []
        for index, part in enumerate(content.parts):
            if part.inline_data is not None:
                filename = messages.artifact_name(invocation_id, index)
                await asyncio.to_thread(self._artifacts.save, message.key, filename, part)
                part = messages.placeholder(filename)
            parts.append(part)
        return Content(role=USER, parts=parts)

    def _user_event(self, message: p.StartTurn, content: Content, invocation_id: str, artifact_delta: dict[str, int]) -> Event:
        return Event(
            id=new_event_id(),
            invocation_id=invocation_id,
            author=USER,
            timestamp=now_s(),
            content=content,
            custom_metadata=message.config.custom_metadata,
            actions=EventActions(state_delta=without_temp(message.state_delta), artifact_delta=artifact_delta),
        )

    async def _opened(self, message: p.StartTurn, invocation_id: str, content: Content, raw: bytes) -> p.TurnOpened:
        request = p.OpenTurn(
            key=message.key,
            invocation_id=invocation_id,
            repeatable=message.repeatable,
            event=raw,
            answers=_answers(content),
            state_delta=message.state_delta,
            auto_create=message.auto_create,
            on_concurrent_turn=message.config.on_concurrent_turn,
            subscriber=message.subscriber,
        )
        while (opened := await self._session.open_turn(request)).interrupted:
            await self.cancel_turn(p.CancelTurn(key=message.key, invocation_id=opened.interrupted))
        return opened

    # ------------------------------------------------------------------------------------------------- running a turn
    async def _run(self, turn: _Turn) -> None:
        outcome: p.AnyOutcome
        try:
            async with asyncio.timeout(turn.config.timeout):
                outcome = await self._whole(turn)
        except TimeoutError:
            outcome = p.Cancelled(agent=turn.agent, timeout_s=turn.config.timeout)
        except asyncio.CancelledError:
            outcome = p.Cancelled(agent=turn.agent)
        except RaygroveError as error:
            outcome = _failed(turn.agent, error)
        except Exception as error:
            # The border of the turn: whatever went wrong here, its driver has to be told that it has ended.
            logger.exception("turn %s failed in the Runner", turn.ref.invocation_id)
            outcome = _failed(turn.agent, RaygroveError(f"the Runner failed: {type(error).__name__}: {error}"))
        if isinstance(outcome, p.Cancelled):
            for task in turn.nested:
                task.cancel()
            await self._stop_agents(turn, turn.agents)
        self._turns.pop((turn.ref.key, turn.ref.invocation_id), None)
        if isinstance(outcome, p.Finished) and outcome.closed:
            return
        try:
            await self._session.close_turn(p.CloseTurn(turn=turn.ref, agent=turn.agent, outcome=outcome))
        except FencedError:
            # Somebody else has taken the turn up, and closes it.
            pass
        except RaygroveError as error:
            logger.error("the record of turn %s could not be written: %s", turn.ref.invocation_id, error)

    async def _whole(self, turn: _Turn) -> p.AnyOutcome:
        """A turn from its beginning to its end, with the plugins' hooks around it."""
        try:
            if turn.goes_on or not await self._begins(turn):
                first = self._entry(turn, turn.agent, scope=None)
                outcome = await self._dispatch(turn, first, branch=None, scope=None)
            else:
                outcome = p.Finished(agent=turn.agent)
            if isinstance(outcome, p.Finished) and not outcome.closed:
                left = await self._hooks.after(turn.ref, turn.agent, turn.content)
                if left is not None:
                    await self._append(turn, turn.agent, left)
        except PluginFailedError as error:
            return await self._fail(turn, turn.agent, error, None)
        return outcome

    async def _begins(self, turn: _Turn) -> bool:
        """True when a plugin has said at the beginning all that there is to say."""
        left = await self._hooks.before(turn.ref, turn.agent, turn.content, turn.state)
        if left is None:
            return False
        # The log and the state are not any more what they were when the turn was opened.
        turn.is_fresh = False
        await self._append(turn, turn.agent, left)
        return left.content is not None

    async def _dispatch(
        self,
        turn: _Turn,
        agent: str,
        *,
        branch: str | None,
        scope: str | None,
        user_event: p.StoredEvent | None = None,
    ) -> p.AnyOutcome:
        """Run an agent, and whomever it hands over to.

        Args:
            scope: the child of a workflow, or the tool agent, within which transfers have to stay; None for the turn's own agent.
            user_event: what is asked; None: what the turn was opened with.
        """
        escalated = False
        while True:
            asked = user_event or turn.user_event
            outcome = await self._invoke(turn, agent, asked, branch=branch, nested=scope is not None)
            escalated = escalated or outcome.escalated
            if not isinstance(outcome, p.Transfer):
                return msgspec.structs.replace(outcome, escalated=escalated)
            refused = self._refused(turn, outcome, scope)
            if refused is not None:
                return await self._fail(turn, agent, refused, branch)
            turn.transfers += 1
            self._counts["transfers"] += 1
            agent = outcome.to

    def _entry(self, turn: _Turn, agent: str, *, scope: str | None) -> str:
        """The agent to begin with, so that answers reach those who asked: `agent` when they are not at or below it."""
        topology = self._known_tree()
        callers = [caller for caller in turn.callers if scope is None or topology.is_below(caller, scope)]
        return resumption.entry(topology, callers[0], scope) if callers else agent

    def _resume_at(self, turn: _Turn, agent: str) -> tuple[str, ...]:
        """Where a run of the agent goes on that was paused: see Context. An agent that is reached is not resumed again."""
        if agent in turn.callers:
            turn.callers = [caller for caller in turn.callers if caller != agent]
            return (agent,)
        topology = self._known_tree()
        towards = (resumption.child_towards(topology, agent, caller) for caller in turn.callers)
        return tuple(dict.fromkeys(child for child in towards if child is not None))

    def _refused(self, turn: _Turn, asked: p.Transfer, scope: str | None) -> RaygroveError | None:
        reason = route_refusal(self._known_tree(), asked.to, scope)
        if reason is not None:
            return TransferTargetError(asked.agent, asked.to, reason)
        if turn.transfers >= turn.config.max_transfers:
            return TransferLimitExceededError(asked.agent, asked.to, turn.config.max_transfers)
        return None

    async def _invoke(
        self, turn: _Turn, agent: str, asked: p.StoredEvent, *, branch: str | None, nested: bool, work: Work | None = None
    ) -> p.AnyOutcome:
        """One run of one agent."""
        is_fresh, turn.is_fresh = turn.is_fresh, False
        turn.agents.add(agent)
        self._counts["invocations"] += 1
        resume_at = self._resume_at(turn, agent) if turn.callers else ()
        # A round of a flow has one model call, which is counted beforehand; what it did not take is given back.
        counted = min(1, turn.llm_calls_left()) if work is not None else 0
        turn.llm_calls += counted
        message = p.Invoke(
            turn=turn.ref,
            agent=agent,
            branch=branch,
            user_event=asked,
            fresh=is_fresh,
            generation=turn.generation,
            state=turn.state if is_fresh else b"",
            streaming=turn.config.streaming == "sse",
            # Runs that are nested, or have others nested in them, may go on side by side, so each of their calls is counted here.
            llm_calls=counted if work else None if nested or self._known_tree()[agent].tool_agents else turn.llm_calls_left(),
            llm_limit=turn.config.max_llm_calls,
            closes="" if nested or self._hooks.at_end else turn.agent,
            resume_at=resume_at,
            progress=turn.progress.get(agent, {}) if resume_at or agent == CONTROLLER else {},
            work=work,
        )
        try:
            outcome = await AgentRef(await self._directory.link(agent)).invoke(message)
        except ActorLostError as error:
            self._directory.forget(agent)
            return await self._fail(turn, agent, error, branch)
        except ClusterError as error:
            return await self._fail(turn, agent, error, branch)
        turn.llm_calls += outcome.llm_calls - counted
        return outcome

    async def _fail(self, turn: _Turn, agent: str, error: RaygroveError, branch: str | None) -> p.Failed:
        """Leave the event of a failure that the agent cannot leave itself."""
        await self._append(turn, agent, Event(branch=branch, error_code=type(error).__name__, error_message=str(error)))
        return _failed(agent, error)

    async def _append(self, turn: _Turn, author: str, event: Event) -> int:
        """Store an event that is made here, and return its place."""
        changed = event.actions.state_delta
        actions = msgspec.structs.replace(event.actions, state_delta=without_temp(changed))
        whole = msgspec.structs.replace(
            event, id=new_event_id(), invocation_id=turn.ref.invocation_id, author=author, timestamp=now_s(), actions=actions
        )
        return await self._session.append(p.Append(turn=turn.ref, events=[encode(whole)], temp=only_temp(changed)))

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool."""
        turn = self._turn(message.turn)
        if message.work is not None:
            asked = message.user_event or turn.user_event
            run = self._invoke(turn, message.child, asked, branch=message.branch, nested=True, work=message.work)
        else:
            first = self._entry(turn, message.child, scope=message.child)
            run = self._dispatch(turn, first, branch=message.branch, scope=message.child, user_event=message.user_event)
        task = asyncio.create_task(run)
        turn.nested[task] = message.branch
        try:
            return await task
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            return p.Cancelled(agent=message.child)
        finally:
            del turn.nested[task]

    async def stop_branch(self, message: p.StopBranch) -> p.Done:
        """Stop what runs on a branch or below, wherever it runs; or what some agents do."""
        turn = self._turn(message.turn)
        if message.agents:
            await self._stop_agents(turn, set(message.agents))
            return p.Done()
        for task, branch in turn.nested.items():
            if is_below_branch(branch, message.branch):
                task.cancel()
        await self._stop_agents(turn, turn.agents, message.branch)
        return p.Done()

    async def take_llm_call(self, message: p.TakeLlmCall) -> p.Done:
        """Count one model call of a run below a supervisor."""
        turn = self._turn(message.turn)
        if turn.llm_calls_left() <= 0:
            raise LlmCallsLimitExceededError(message.agent, turn.config.max_llm_calls)
        turn.llm_calls += 1
        return p.Done()

    def _turn(self, ref: p.TurnRef) -> _Turn:
        turn = self._turns.get((ref.key, ref.invocation_id))
        if turn is None or turn.ref != ref:
            raise FencedError(ref.invocation_id, ref.epoch)
        return turn

    # ------------------------------------------------------------------------------------------------- stopping
    async def cancel_turn(self, message: p.CancelTurn) -> p.Done:
        """Stop a turn that runs or waits in line; returns when it is closed."""
        turn = self._turns.get((message.key, message.invocation_id))
        if turn is None or turn.task is None:
            await self._session.cancel_turn(message)
            return p.Done()
        if not turn.is_cancelled:
            turn.is_cancelled = True
            turn.task.cancel()
        await asyncio.wait([turn.task])
        return p.Done()

    async def _stop_agents(self, turn: _Turn, agents: set[str], branch: str | None = None) -> None:
        stop = p.StopRun(key=turn.ref.key, invocation_id=turn.ref.invocation_id, branch=branch)
        for agent, link in self._directory.live():
            if agent in agents:
                with suppress(ActorLostError):
                    await AgentRef(link).stop_run(stop)

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what has been done, here and by every live agent."""
        agents = []
        for agent, link in self._directory.live():
            try:
                agents.append(await AgentRef(link).statistics())
            except ActorLostError:
                self._directory.forget(agent)
        counts = {**self._counts, "running": len(self._turns)}
        return p.Statistics(actor=self.name, pid=os.getpid(), counts=counts, agents=agents)

    async def stop(self, _: p.Stop) -> p.Done:
        """Cancel what runs, and stop every agent."""
        for key, invocation_id in list(self._turns):
            await self.cancel_turn(p.CancelTurn(key=key, invocation_id=invocation_id))
        await self._directory.close()
        return p.Done()

    async def _tree(self) -> Topology:
        if self._topology is None:
            self._topology = await self._session.topology()
        return self._topology

    def _known_tree(self) -> Topology:
        assert self._topology is not None, "no turn runs before the tree is known"
        return self._topology


def _saves(message: p.StartTurn, content: Content) -> bool:
    """True when there is data in the message that goes to the artifact store."""
    return message.config.save_input_blobs_as_artifacts and messages.has_blobs(content)


def _answers(content: Content) -> tuple[str, ...]:
    return tuple(response.id for response in content.function_responses() if response.id)


def _failed(agent: str, error: RaygroveError) -> p.Failed:
    return p.Failed(agent=agent, error_code=type(error).__name__, error_message=str(error), error_args=list(error.args))
