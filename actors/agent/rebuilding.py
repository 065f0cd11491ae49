"""Builds requests of model calls of the past again, in the process of the agent whose calls they were."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from actors.agent.past_views import UNKNOWN_STATE, ConversationView, Sight, node_sight, round_sight
from actors.behaviours.flow.controller import DEFINITION, RUN
from actors.behaviours.flow.rebuilding import PastRound
from actors.behaviours.llm.rebuilding import PastRun, inexact_because, names_in_instructions, rebuilt_request
from actors.definitions.flows.plan import PlanSource
from actors.definitions.tree.spec import AgentSpec
from actors.errors import ActorLostError, FlowNotFoundError, NotEncodableError, TemplateError
from actors.messages import protocol as p
from actors.messages.codec import decode, decode_event
from actors.messages.event import BY_BUDGET, BY_RUN_CONFIG, Event
from actors.messages.graph import node_at, root_path, with_unstored
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm.model import LlmRequest
from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.messages.topology import TASK
from actors.refs.access import RemoteLog
from actors.refs.session import SessionRef
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory
from actors.rules.recording.packing import RequestPacker
from actors.rules.routing.branches import TOOL_MARK, tool_root


class RequestRebuilding:
    """Answers RebuildRequests.

    Args:
        spec: the agent.
        session: the client of the Session actors.
        plans: finds the definition of a flow by its name.
    """

    def __init__(self, spec: AgentSpec, session: SessionRef, plans: PlanSource) -> None:
        self._spec = spec
        self._session = session
        self._plans = plans

    async def rebuild(self, message: p.RebuildRequests) -> p.ModelCallsReply:
        """Build the requests again to which events of the agent have the answers. Raises SessionNotFoundError, StoreError.

        One that cannot be rebuilt exactly is omitted, with the reason.
        """
        wanted = set(message.seqs)
        packer = RequestPacker(self._spec.limits.max_event_bytes, self._spec.recording.mask)
        reason = inexact_because(self._spec)
        calls: list[p.StoredCall] = []
        parts: list[PackedPart] = []
        views: dict[str | None, ConversationView] = {}
        seen: list[Event] = []
        async for event in self._events(message):
            if event.seq in wanted:
                call = PackedCall(id=event.id, agent=self._spec.name, begun_s=0.0, ended_s=0.0)
                found = reason or _inexact_here(event) or await self._request(message, event, seen, views)
                if not isinstance(found, str):
                    try:
                        request, more = packer.packed(found)
                        call = msgspec.structs.replace(call, request=request)
                        parts += more
                    except NotEncodableError as error:
                        found = str(error)
                if isinstance(found, str):
                    call = msgspec.structs.replace(call, omitted=found)
                calls.append(p.StoredCall(event.seq, call))
            seen.append(event)
        return p.ModelCallsReply(calls=calls, parts=parts)

    async def _events(self, message: p.RebuildRequests) -> AsyncIterator[Event]:
        """The session's events up to the last one that is wanted."""
        after_seq, generation, more = 0, "", True
        while more:
            fetched = await self._session.fetch(p.Fetch(key=message.key, after_seq=after_seq, generation=generation))
            for stored in fetched.events:
                if stored.seq > message.seqs[-1]:
                    return
                yield decode_event(stored.raw, stored.seq)
            generation, more = fetched.generation, fetched.more and bool(fetched.events)
            after_seq = fetched.events[-1].seq if fetched.events else after_seq

    async def _request(
        self,
        message: p.RebuildRequests,
        event: Event,
        seen: Sequence[Event],
        views: dict[str | None, ConversationView],
    ) -> LlmRequest | str:
        """The request to which an event has the answer, or why it is not known. Raises SessionNotFoundError, StoreError.

        Args:
            seen: all events before it.
            views: the conversation as of the answers before it, by branches.
        """
        spec = self._spec
        if _is_of_node(spec, event):
            assert event.node_info is not None
            spec = spec.as_tool if node_at(event.node_info.path) == spec.name else spec
            found = node_sight(spec, event, seen)
        elif event.flow is not None:
            found = round_sight(spec, event, seen)
        else:
            found = views.setdefault(event.branch, ConversationView(spec, event.branch)).of(event, seen)
            spec = spec.as_tool if _is_asked_as_tool(spec.name, event.branch) else spec
        if isinstance(found, str):
            return found
        worked = await self._round(event, found.history, seen) if event.flow is not None else None
        if isinstance(worked, str):
            return worked
        names = [*names_in_instructions(spec), *(worked.names() if worked is not None else ())]
        if name := next((name for name in names if name in found.changed), ""):
            return f"another branch changed {name!r} of the state meanwhile"
        if names and found.unstored is None:
            return UNKNOWN_STATE
        state = await self._state(message, found) if names else {}
        past = PastRun(spec, RemoteLog(message.key, _no_events), event.invocation_id, event.branch, found.history, state)
        try:
            return await (rebuilt_request(spec, past) if worked is None else worked.request(past))
        except TemplateError as error:
            return str(error)

    async def _state(self, message: p.RebuildRequests, found: Sight) -> JsonMapping:
        reply = await self._session.get_state_before(p.GetStateBefore(key=message.key, seq=found.state_seq + 1))
        state: JsonObject = decode(reply.state, dict)
        for event in found.own:
            state.update(event.actions.state_delta)
        return with_unstored(state, found.unstored or {})

    async def _round(self, event: Event, history: History, seen: Sequence[Event]) -> PastRound | str:
        """The round of a flow in which an answer was given, or why it is not known."""
        assert event.flow is not None
        assert isinstance(history, TaskHistory)
        definition = _definition_of(event.flow.run, seen)
        try:
            plan = await self._plans(definition)
        except (FlowNotFoundError, ActorLostError):
            return f"the flow {definition!r} came with the turn, and is not kept any more"
        worked = PastRound(self._spec, definition, event.flow, plan, history.board(event.flow.run))
        return worked.inexact_because() or worked


def _definition_of(run: str, seen: Sequence[Event]) -> str:
    """The name of the definition of a flow that ran; "" where the log does not say it."""
    notes = (event.actions.agent_state or {} for event in seen)
    return next((str(note[DEFINITION]) for note in notes if note.get(RUN) == run and DEFINITION in note), "")


def _is_of_node(spec: AgentSpec, event: Event) -> bool:
    """True for what an agent says as a node; what it says above runs that it has asked for has a path, too."""
    info = event.node_info
    return info is not None and (info.seen is not None or info.path != root_path(spec.name) or spec.mode == TASK)


def _inexact_here(event: Event) -> str:
    if event.actions.compaction is not None:
        return "it asked for a summary of the conversation"
    if BY_BUDGET in (event.custom_metadata or {}):
        return "a budget that was used up has changed it"
    if BY_RUN_CONFIG in (event.custom_metadata or {}):
        return "the turn's model_input_context was in it"
    return ""


def _is_asked_as_tool(agent: str, branch: str | None) -> bool:
    root = tool_root(branch)
    return root is not None and root.rpartition(".")[2].startswith(f"{TOOL_MARK}{agent}:")


async def _no_events() -> Sequence[Event]:
    """Nothing reads the log of a past run."""
    return ()
