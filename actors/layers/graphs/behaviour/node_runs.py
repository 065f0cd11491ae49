"""The runs of single nodes of a graph: functions with their attempts and questions, agents, joins (semantics.md section 8)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from actors.agent.invocation import Invocation
from actors.behaviours.lifecycle import log_failure, stored_failure
from actors.errors import FencedError, NodeTimeoutError
from actors.errors.tracebacks import whole_traceback
from actors.layers.graphs.behaviour.dynamic import DynamicRuns
from actors.layers.graphs.behaviour.function_node import INPUT, NodeCall, ended, question
from actors.layers.graphs.behaviour.node_attempt import (
    KnownRun,
    NodeAttempt,
    NodeEnd,
    NodeFailed,
    NodeInterruptedError,
    NodePlace,
    NodeResult,
    next_attempt,
)
from actors.layers.graphs.behaviour.parallel import ParallelRun
from actors.layers.graphs.definitions.checks import StateSchema, misfit
from actors.layers.graphs.definitions.context import RunState
from actors.layers.graphs.definitions.edges import AgentName, GraphNode
from actors.layers.graphs.definitions.nodes import FunctionNode, ParallelWorker, RetryConfig, ToolNode
from actors.layers.graphs.rules.sight import UserAnswers
from actors.messages.codec import plain
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, Event, EventActions
from actors.messages.graph import NextAttempt, NodeInfo, NodeTask, Route, Unstored
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.protocol.runs import Failed, Finished, Paused
from actors.rules.checks.questions import REJECTED
from actors.rules.failures import classes_of, failure, failure_event

logger = logging.getLogger(__name__)


class _Raised(NamedTuple):
    """An attempt has failed. `told`: an event says so already, of a run below it whose failure it is."""

    error: Exception
    failed: Failed
    traceback: str
    is_told: bool


class RunsOwner(NamedTuple):
    """What runs nodes: a graph, or an agent for its tools.

    Attributes:
        agents: that may be run, by name.
        answers: the user's, when the run goes on after a pause or a loss.
        state: the keys of the state that functions may use; None: all.
        unstored: what of the state the functions around it have written, and not stored.
        after_seq: failures up to this place in the log are those of earlier attempts of a graph; 0 in the first.
    """

    name: str
    agents: Mapping[str, AgentName]
    answers: UserAnswers
    state: StateSchema | None = None
    unstored: Mapping[str, Unstored] = MappingProxyType({})
    after_seq: int = 0


class NodeRuns:
    """Runs single nodes, each from where the log has it. Implements RunsBelow.

    Args:
        owner: whose nodes they are.
        context: the run of the graph, or of the agent.
        may_wait: a run may wait for the user; False: one that would has failed.

    Attributes:
        may_have_begun: the runs that a lost graph may have begun.
        stored_seq: the place of the end that was stored last; where the graph began before the first.
    """

    def __init__(self, owner: RunsOwner, context: Invocation, *, may_wait: bool = True) -> None:
        self._owner = owner
        self._context = context
        self._may_wait = may_wait
        self._state = RunState(lambda: context.state)
        self._attempts: dict[str, NodeAttempt] = defaultdict(NodeAttempt)
        # By the run of the graph that they are below.
        self._below: dict[str, dict[str, NodeEnd | NodeFailed]] = defaultdict(dict)
        # Where those have said something that counts, or asked.
        self._said: dict[str, int] = {}
        self.may_have_begun: Collection[str] = ()
        self.stored_seq = context.begun_seq

    def recall(self, name: str, event: Event, info: NodeInfo) -> NodeEnd | None:
        """Take in an event of a run that the log has; return the end of a run that is below no other."""
        answers, top = self._owner.answers, _top(name)
        above = name
        while above != top:
            above = above.rpartition("/")[0]
            self._attempts[above].add_below(event, answers)
        attempt = self._attempts[name]
        if event.seq <= self._context.retried_seq and (info.attempt or event.error_code is not None):
            # The turn was retried after this failure: the node is run again, and attempts are counted anew.
            self._try_again(name, attempt, 1, event.seq)
            return None
        if info.attempt:
            self._try_again(name, attempt, info.attempt + 1, event.seq)
            return None
        attempt.add(event, answers)
        if name != top and (event.output is not None or event.long_running_tool_ids):
            self._said[name] = event.seq
        if not info.has_ended:
            return None
        del self._attempts[name]
        output = attempt.output if info.handed_on is None else info.handed_on
        if name != top:
            has_failed = event.error_code is not None
            self._below[top][name] = NodeFailed(None, stored_failure(event)) if has_failed else NodeEnd([], output)
            return None
        self._below.pop(top, None)
        return NodeEnd([event], output, attempt.routes)

    async def run(self, place: NodePlace) -> NodeResult:
        """Run a node. Raises FencedError."""
        # What a function runs, or a parallel worker, they check themselves.
        if "/" not in place.name and (error := misfit(place.node, place.given)) is not None:
            return self.refused(place, error)
        match place.node:
            case AgentName():
                return await self._run_agent(place, place.node)
            case FunctionNode():
                return await self._run_function(place, place.node)
            case ParallelWorker():
                return await ParallelRun(self, place.node, place).run()
        output = cast(JsonValue, place.given)
        if place.node.input_type is not None:
            input_type = place.node.input_type
            # A node before it that has given nothing has nothing to fit.
            output = {
                name: None if value is None else input_type.data_of(value) for name, value in cast(JsonMapping, output).items()
            }
        return NodeEnd([ended(Event(branch=place.branch, node_info=place.info, output=output))], output)

    def refused(self, place: NodePlace, error: Exception) -> NodeFailed:
        """The failure of what is around a run, because of its input: see RunsBelow."""
        log_failure(logger, logging.ERROR, f"the input of {place.node.name!r} in {self._owner.name!r}", self._context, error, "")
        failed = failure(error)
        info = NodeInfo(path=place.info.path.rpartition("/")[0])
        return NodeFailed(msgspec.structs.replace(failure_event(failed, self._context.branch), node_info=info), failed)

    def known(self, name: str) -> KnownRun:
        """A run below another, as the log has it: see RunsBelow."""
        seq, ended, answers = self._said.get(name, 0), self._below[_top(name)].get(name), self._owner.answers
        attempt = self._attempts.get(name)
        if ended is not None or attempt is None or not attempt.waits or attempt.is_answered(answers):
            return KnownRun(seq, ended)
        waits = [each for each in attempt.waits if each not in attempt.inputs(answers)]
        return KnownRun(seq, NodeEnd([], waits=waits) if waits else None)

    async def run_below(self, place: NodePlace) -> NodeResult:
        """Run a node, and store its end: see RunsBelow."""
        result = await self.run(place)
        if isinstance(result, NodeEnd) and result.is_waiting and not self._may_wait:
            await self.stop(place.node)
            result = self._cannot_wait(place)
        match result:
            case NodeEnd():
                await self.store([result])
                if result.is_waiting:
                    return result
                result = NodeEnd([], result.output)
            case NodeFailed():
                await self._store_failure(place, result)
                result = NodeFailed(None, result.failed)
            case _:
                return result
        self._below[_top(place.name)][place.name] = result
        return result

    def _cannot_wait(self, place: NodePlace) -> NodeFailed:
        why = f"{place.info.path} waits for the user, which a run cannot that a tool has asked for: make it a tool itself"
        failed = failure(ValueError(why))
        info = NodeInfo(path=place.info.path, is_alone=place.info.is_alone)
        return NodeFailed(msgspec.structs.replace(failure_event(failed, place.branch), node_info=info), failed)

    async def store(self, ends: Sequence[NodeEnd], graph_end: Finished | None = None) -> None:
        """Store the events of ends together.

        Args:
            graph_end: the graph ends with them, and this is its outcome.
        """
        events = [event for end in ends for event in end.events]
        if events:
            stored = await self._context.emit_all(events, end=graph_end)
            self._state.note_stored(*events, *stored)
            self.stored_seq = stored[-1].seq

    async def stop(self, node: GraphNode) -> None:
        """Stop the runs of a node that is an agent: see RunsBelow."""
        if isinstance(node, AgentName):
            await self._context.stop_child(node.name)

    def noted_end(
        self, place: NodePlace, output: JsonValue, routes: Sequence[Route] = (), *, is_of_agent: bool = False
    ) -> NodeEnd:
        """The end of a run of which the log has all that it has said: the graph notes that it is over, and what of it goes on."""
        info = NodeInfo(path=place.info.path, handed_on=output, has_ended=True, is_note=True)
        actions = EventActions(route=list(routes)) if routes else NO_ACTIONS
        event = Event(branch=place.branch, node_info=info, actions=actions)
        return NodeEnd([event], output, routes, is_of_agent=is_of_agent)

    async def _store_failure(self, place: NodePlace, result: NodeFailed) -> None:
        """Store that a run has failed: its own event, or a note where an event says so already."""
        if result.event is not None:
            self._state.note_stored(result.event, await self._context.emit(ended(result.event)))
            return
        event = msgspec.structs.replace(failure_event(result.failed, place.branch), node_info=NodeInfo(path=place.info.path))
        await self._context.record_all([ended(event, is_note=True)])

    async def _run_agent(self, place: NodePlace, agent: AgentName) -> NodeResult:
        attempt = self._attempts[place.name]
        is_below = _top(place.name) != place.name
        resume = self._context.is_resumed if is_below else place.name in self.may_have_begun
        while True:
            result = await self._asked(place, agent, attempt, resume=resume)
            if not isinstance(result, NodeFailed):
                return result
            following = self._next(place, agent.retry_config, attempt, classes_of(result.failed))
            if following is None:
                return result
            # The agent has told the failure itself, unless it took too long.
            told = result.event or Event(branch=place.branch)
            is_note = told.error_code is None
            info = NodeInfo(path=place.info.path, attempt=attempt.number, is_note=is_note)
            again = msgspec.structs.replace(told, node_info=info)
            [stored] = await (self._context.record_all([again]) if is_note else self._context.emit_all([again]))
            await self._context.clock.sleep(following.delay_s)
            attempt = self._try_again(place.name, attempt, attempt.number + 1, stored.seq)
            # A graph goes on from what has ended in it; any other agent begins anew.
            resume = agent.is_graph

    async def _outcome(self, place: NodePlace, agent: str, task: NodeTask, *, resume: bool, is_first: bool) -> NodeResult:
        run = self._context
        # What runs beside the graph, or has begun earlier in it, may have written what the graph does not know.
        knows_state = is_first and not resume and run.message.node is None and run.branch is None
        state = run.reader.state_along() if knows_state else (b"", 0)
        outcome = await run.children.run_node(agent, task, place.branch, resume=resume, state=state)
        await run.reader.refresh_state(outcome.state_seq)
        match outcome:
            case Finished():
                return self.noted_end(place, outcome.output, outcome.routes, is_of_agent=True)
            case Paused():
                return NodeEnd([], waits=outcome.call_ids, is_of_agent=True)
            case Failed():
                return NodeFailed(None, outcome)
        return outcome

    async def _asked(self, place: NodePlace, agent: AgentName, attempt: NodeAttempt, *, resume: bool) -> NodeResult:
        """The result of one attempt of an agent."""
        # Of a graph that is tried again what has ended stays so.
        since = place.since if agent.is_graph else max(place.since, attempt.after_seq)
        task = NodeTask(
            path=place.info.path,
            graph=self._owner.name,
            content=place.given if isinstance(place.given, Content) else None,
            data=None if isinstance(place.given, Content) else place.given,
            output_for=place.info.output_for,
            after_seq=max(attempt.after_seq, self._owner.after_seq),
            since=since,
            sees_conversation=agent.sees_conversation,
            again=self._next(place, agent.retry_config, attempt),
            unstored=self._state.unstored(self._owner.unstored),
        )
        is_first = place.is_first and attempt.number == 1
        asked = self._outcome(place, agent.name, task, resume=resume, is_first=is_first)
        if agent.timeout is None:
            return await asked
        try:
            async with asyncio.timeout(agent.timeout) as timer:
                return await asked
        except TimeoutError:
            if not timer.expired():
                raise
        await self._context.stop_child(agent.name)
        failed = failure(NodeTimeoutError(agent.name, agent.timeout))
        info = NodeInfo(path=place.info.path)
        # A graph tells its own failures; the graph around them tells those of other agents.
        author = agent.name if agent.is_graph else ""
        return NodeFailed(msgspec.structs.replace(failure_event(failed, place.branch), author=author, node_info=info), failed)

    def _next(
        self, place: NodePlace, retry: RetryConfig | None, attempt: NodeAttempt, error_classes: Sequence[str] | None = None
    ) -> NextAttempt | None:
        return next_attempt(retry, attempt.number, self._context.invocation_id, place.info.path, error_classes)

    async def _run_function(self, place: NodePlace, node: FunctionNode) -> NodeResult:
        answers = self._owner.answers
        attempt = self._attempts[place.name]
        if (end := self._answered(place, node, attempt)) is not None:
            return end
        while True:
            below = DynamicRuns(self, self._owner.agents, place, may_ask=node.rerun_on_resume)
            inputs = attempt.inputs(answers)
            call = NodeCall(node, place, attempt, inputs, self._context, self._state, below, self._owner.state)
            result = await self._attempt(call, node, below)
            if not isinstance(result, _Raised):
                return result
            classes = [each.__name__ for each in type(result.error).__mro__]
            again = self._next(place, node.retry_config, attempt, classes)
            self._log(node, result, again)
            if again is None and result.is_told:
                call.take_back()
            if again is None:
                return NodeFailed(None if result.is_told else call.failed(result.failed), result.failed)
            event = call.try_again() if result.is_told else call.failed(result.failed, is_retried=True)
            stored = await self._context.emit(event)
            self._state.note_stored(event, stored)
            await self._context.clock.sleep(again.delay_s)
            attempt = self._try_again(place.name, attempt, attempt.number + 1, stored.seq)

    async def _attempt(self, call: NodeCall, node: FunctionNode, below: DynamicRuns) -> NodeResult | _Raised:
        try:
            end = await _within(call, node)
            await below.finish()
            return below.stopped or (call.interrupted() if below.waits else end)
        except NodeInterruptedError:
            await below.finish()
            return below.stopped or call.interrupted()
        except (FencedError, asyncio.CancelledError):
            call.take_back()
            raise
        except Exception as error:
            await below.stop()
            traceback = whole_traceback(error)
            told = next((each.failed for each in below.failed if each.error is error), None)
            return _Raised(error, told or failure(error, traceback), traceback, told is not None)
        finally:
            below.cancel()

    def _log(self, node: FunctionNode, raised: _Raised, again: NextAttempt | None) -> None:
        """Log an attempt that has failed; `again`: the one that follows, if there is one."""
        what, level = f"node {node.name!r} of graph {self._owner.name!r}", logging.ERROR
        if again is not None:
            what, level = again.failed(what), logging.WARNING
        log_failure(logger, level, what, self._context, raised.error, raised.traceback)

    def _try_again(self, name: str, before: NodeAttempt, number: int, after_seq: int) -> NodeAttempt:
        """The next attempt of a run: what has ended below it stays so, but for what has failed."""
        below = self._below[_top(name)]
        failed = [each for each, end in below.items() if isinstance(end, NodeFailed) and each.startswith(f"{name}/")]
        for each in failed:
            del below[each]
        self._attempts[name] = NodeAttempt(number, after_seq, before.asked)
        return self._attempts[name]

    def _answered(self, place: NodePlace, node: FunctionNode, attempt: NodeAttempt) -> NodeEnd | None:
        """The end of a run, or its pause, that follows from the answers to its questions; None: the function is called."""
        answers = self._owner.answers
        inputs = attempt.inputs(answers)
        if node.require_confirmation:
            call_id = consent_id(self._context.invocation_id, place.info.path)
            if call_id not in attempt.asked:
                return asked_consent(call_id, place, node, self._state.state_over({}, {}, {}))
            if call_id not in inputs:
                return NodeEnd([], waits=[call_id])
            if not is_agreed(inputs.pop(call_id)):
                return refused(place)
            if attempt.waits.pop(call_id, None) is not None:
                attempt.begin_again()
                return None
        missing = [*(call_id for call_id in attempt.waits if call_id not in inputs), *attempt.unanswered_below(answers)]
        if attempt.waits and not node.rerun_on_resume:
            output = inputs[next(iter(inputs))] if len(inputs) == 1 else cast(JsonValue, inputs)
            # Beside its question it may have said a route.
            return NodeEnd([], waits=missing) if missing else self.noted_end(place, output)._replace(routes=attempt.routes)
        # Where it has paused without a question, a run below it has waited for the user's words.
        if attempt.is_answered(answers) or (attempt.has_paused and not attempt.waits_below):
            attempt.begin_again()
            return None
        is_over = attempt.waits or attempt.has_paused
        return NodeEnd([], waits=missing) if missing and is_over else None


def _top(name: str) -> str:
    """The run of the graph itself that a run is, or is below."""
    return name.partition("/")[0]


async def _within(call: NodeCall, node: FunctionNode) -> NodeEnd:
    """The end of an attempt. Raises NodeTimeoutError when it takes longer than the node may."""
    try:
        async with asyncio.timeout(node.timeout) as timer:
            return await call.run()
    except TimeoutError as error:
        if timer.expired():
            raise NodeTimeoutError(node.name, node.timeout) from error
        raise


_SCHEMA: JsonObject = {
    "title": "ToolConfirmation",
    "type": "object",
    "properties": {"confirmed": {"type": "boolean"}, "hint": {"type": "string"}, "payload": {}},
    "required": ["confirmed"],
}


def consent_id(invocation_id: str, path: str) -> str:
    """The id of the question whether a run may be: as google-adk's, but that of one turn only."""
    return f"wf_tool_confirmation:{invocation_id} {path}"


def asked_consent(call_id: str, place: NodePlace, node: FunctionNode, state: JsonMapping) -> NodeEnd:
    """The pause of a run that the user has to agree to: the question shows what the function would be given."""
    message = f"Please approve or reject the tool call {node.name}()"
    if isinstance(node, ToolNode):
        given = node.arguments(place.given, state)
        message += " by responding with a FunctionResponse with an expected ToolConfirmation payload"
    else:
        given = {name: place.given if name == INPUT else state.get(name) for name in node.parameters}
    args: JsonObject = {
        "message": f"{message}.",
        "payload": {"tool_name": node.name, "args": plain(given)},
        "response_schema": _SCHEMA,
    }
    info = NodeInfo(path=place.info.path)
    return NodeEnd([msgspec.structs.replace(question(call_id, args), branch=place.branch, node_info=info)], waits=[call_id])


def is_agreed(answer: JsonValue) -> bool:
    """True for an answer that agrees."""
    return isinstance(answer, dict) and answer.get("confirmed") is True


def refused(place: NodePlace) -> NodeEnd:
    """The end of a run that the user does not want: its output says so."""
    output: JsonObject = {"error": REJECTED}
    return NodeEnd([ended(Event(branch=place.branch, node_info=place.info, output=output))], output)
