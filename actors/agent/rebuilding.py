"""Builds requests of model calls of the past again, in the process of the agent whose calls they were."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from actors.behaviours.llm.rebuilding import PastRun, inexact_because, names_in_instructions, rebuilt_request
from actors.definitions.tree.spec import AgentSpec
from actors.errors import NotEncodableError, TemplateError
from actors.messages import protocol as p
from actors.messages.codec import decode, decode_event
from actors.messages.event import BY_BUDGET, Event
from actors.messages.json_types import JsonObject
from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.refs.access import RemoteLog
from actors.refs.session import SessionRef
from actors.rules.prompt.history import History
from actors.rules.recording.packing import RequestPacker
from actors.rules.routing.branches import TOOL_MARK, tool_root


class RequestRebuilding:
    """Answers RebuildRequests.

    Args:
        spec: the agent.
        session: the client of the Session actors.
    """

    def __init__(self, spec: AgentSpec, session: SessionRef) -> None:
        self._spec = spec
        self._session = session

    async def rebuild(self, message: p.RebuildRequests) -> p.ModelCallsReply:
        """Build the requests again to which events of the agent have the answers. Raises SessionNotFoundError, StoreError.

        One that cannot be rebuilt exactly is omitted, with the reason.
        """
        wanted = set(message.seqs)
        packer = RequestPacker(self._spec.limits.max_event_bytes, self._spec.recording.mask)
        reason = inexact_because(self._spec)
        names = [] if reason else names_in_instructions(self._spec)
        calls: list[p.StoredCall] = []
        parts: list[PackedPart] = []
        views: dict[str | None, _View] = {}
        seen: list[Event] = []
        async for event in self._events(message):
            if event.seq in wanted:
                call = PackedCall(id=event.id, agent=self._spec.name, begun_s=0.0, ended_s=0.0)
                omitted = reason or _inexact_here(event)
                if not omitted:
                    view = views.setdefault(event.branch, _View(self._spec, event.branch))
                    view.add_all(seen)
                    call, more = await self._rebuilt(message, event, call, view, names, packer)
                    parts += more
                else:
                    call = msgspec.structs.replace(call, omitted=omitted)
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

    async def _rebuilt(
        self,
        message: p.RebuildRequests,
        event: Event,
        call: PackedCall,
        view: _View,
        names: Sequence[str],
        packer: RequestPacker,
    ) -> tuple[PackedCall, list[PackedPart]]:
        if name := view.changed_beside(names):
            return msgspec.structs.replace(call, omitted=f"another branch changed {name!r} of the state meanwhile"), []
        state: JsonObject = {}
        if names:
            reply = await self._session.get_state_before(p.GetStateBefore(key=message.key, seq=event.seq))
            state = decode(reply.state, dict)
        spec = self._spec.as_tool if _is_asked_as_tool(self._spec.name, event.branch) else self._spec
        past = PastRun(spec, RemoteLog(message.key, _no_events), event.invocation_id, event.branch, view.history, state)
        try:
            request, parts = packer.packed(await rebuilt_request(spec, past))
        except (TemplateError, NotEncodableError) as error:
            return msgspec.structs.replace(call, omitted=str(error)), []
        return msgspec.structs.replace(call, request=request), parts


class _View:
    """The log as the agent sees it on a branch, up to where it was read."""

    def __init__(self, spec: AgentSpec, branch: str | None) -> None:
        self.history = History(spec.name, branch)
        self._agent = spec.name
        self._branch = branch
        self._taken = 0
        self._beside: set[str] = set()

    def add_all(self, events: Sequence[Event]) -> None:
        """Take in those that are new of all events of the log so far."""
        for event in events[self._taken :]:
            self.history.add(event)
            if event.author == self._agent and event.branch == self._branch:
                self._beside.clear()
            elif event.branch is not None and event.branch != self._branch:
                self._beside.update(event.actions.state_delta)
        self._taken = len(events)

    def changed_beside(self, names: Sequence[str]) -> str:
        """A name that a run on another branch has changed since the agent's last event: the agent may not have seen it."""
        return next((name for name in names if name in self._beside), "")


def _inexact_here(event: Event) -> str:
    if event.flow is not None:
        return "it was a round of a flow"
    if event.node_info is not None:
        return "the agent ran as a node of a graph"
    if BY_BUDGET in (event.custom_metadata or {}):
        return "a budget that was used up has changed it"
    return ""


def _is_asked_as_tool(agent: str, branch: str | None) -> bool:
    root = tool_root(branch)
    return root is not None and root.rpartition(".")[2].startswith(f"{TOOL_MARK}{agent}:")


async def _no_events() -> Sequence[Event]:
    """Nothing reads the log of a past run."""
    return ()
