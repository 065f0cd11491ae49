"""One session in two places: in the Runtime's log, and in the session service of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from google.adk.events.event import Event as AdkEvent
from google.adk.runners import Runner
from google.genai import types

from actors.messages.event import ADK_FIELDS, Event, EventActions
from actors.messages.json_types import JsonObject
from actors.rules.routing.branches import tool_root
from runtime.driver.runtime import Runtime
from runtime.frontends.web.adk.checkpoints import Checkpoints
from runtime.frontends.web.adk.events import AdkEvents, answered
from runtime.integrations.adk.contents import adk_event, genai_part, own_event, own_part


def is_shown(event: Event) -> bool:
    """True for an event in whose place ADK's Runner has any: it is no flow's, nor said by an agent that is a tool."""
    return event.flow is None and not tool_root(event.branch)


class Mirror:
    """Brings what a test writes to the log, and what a turn stores to the test's services.

    Attributes:
        seq: the position in the log up to which the test's services have it.
    """

    def __init__(self, rt: Runtime, runner: Runner, user_id: str, session_id: str) -> None:
        self.seq = 0
        self._rt = rt
        self._runner = runner
        self._ids = {"user_id": user_id, "session_id": session_id}
        self._known: set[str] = set()
        self._state: dict[str, Any] | None = None
        self._saved: dict[str, int] = {}
        self._given: dict[str, Sequence[Any]] = {}
        self._view: AdkEvents | None = None

    async def ended(self) -> Sequence[Any]:
        """The events that ADK has behind the last one of a turn; the test's services get them."""
        found = [_read(each) for each in (await self._viewed()).ended()]
        for theirs in found:
            self._known.add(theirs.id)
            await self._runner.session_service.append_event(session=await self._session(), event=theirs)
        return found

    async def knows_turn(self, invocation_id: str | None) -> bool:
        """True for an id that events of the session have."""
        return any(event.invocation_id == invocation_id for event in (await self._session()).events)

    async def _viewed(self) -> AdkEvents:
        if self._view is None:
            topology = await self._rt.aio.topology()
            self._view = AdkEvents(for_operator=True, checkpoints=Checkpoints(topology) if topology.root.is_resumable else None)
        return self._view

    async def _session(self) -> Any:
        return await self._runner.session_service.get_session(app_name=self._runner.app_name, **self._ids)

    async def to_log(self) -> None:
        """Bring what the test has written since to the log."""
        session = await self._session()
        state = dict(session.state)
        if self._state is None:
            await self._rt.aio.sessions.create(state=_plain(state), **self._ids)
        else:
            changed = {key: value for key, value in state.items() if key not in self._state or self._state[key] != value}
            changed |= dict.fromkeys(self._state.keys() - state.keys())
            if changed:
                await self._append(Event(author="user", actions=EventActions(state_delta=_plain(changed))))
        for event in session.events:
            if event.id not in self._known:
                self._known.add(event.id)
                own = own_event(event, author=event.author)
                actions = msgspec.structs.replace(own.actions, state_delta={})
                kept = {
                    "id": event.id,
                    "invocation_id": event.invocation_id,
                    "branch": event.branch,
                    "timestamp": event.timestamp,
                }
                await self._append(msgspec.structs.replace(own, actions=actions, **kept))
        await self._artifacts_to_log()
        self._state = state

    async def _append(self, event: Event) -> None:
        stored = await self._rt.aio.sessions.append_event(event=event, **self._ids)
        self.seq = stored.seq

    async def _artifacts_to_log(self) -> None:
        service = self._runner.artifact_service
        if service is None:
            return
        where = {"app_name": self._runner.app_name, **self._ids}
        for name in await service.list_artifact_keys(**where):
            for version in await service.list_versions(filename=name, **where):
                if version >= self._saved.get(name, 0):
                    part = await service.load_artifact(filename=name, version=version, **where)
                    if part is not None:
                        await self._rt.aio.artifacts.save(filename=name, part=own_part(part), **self._ids)
                    self._saved[name] = version + 1

    async def to_service(self, seq: int | None = None) -> Sequence[Any]:
        """Bring the log up to that position, by default all of it, to the test's services. Returns what was new."""
        news: list[Any] = []
        while True:
            page = await self._rt.aio.sessions.events(self._ids["user_id"], self._ids["session_id"], after_seq=self.seq)
            page = [event for event in page if seq is None or event.seq <= seq]
            for event in page:
                self.seq = event.seq
                if event.id not in self._known:
                    news += await self._store(event)
            if not page:
                break
        self._state = dict((await self._session()).state)
        return news

    async def _store(self, event: Event) -> Sequence[Any]:
        self._known.add(event.id)
        for name, version in event.actions.artifact_delta.items():
            await self._store_artifact(name, version)
        shown = await self.shown(event) if is_shown(event) else ()
        for theirs in shown:
            self._known.add(theirs.id)
            await self._runner.session_service.append_event(session=await self._session(), event=theirs)
        if event.actions.state_delta and not shown:
            actions = EventActions(state_delta=dict(event.actions.state_delta))
            silent = adk_event(msgspec.structs.replace(event, content=None, actions=actions))
            await self._runner.session_service.append_event(session=await self._session(), event=silent)
        return shown

    async def _store_artifact(self, name: str, version: int) -> None:
        service = self._runner.artifact_service
        if service is None or version < self._saved.get(name, 0):
            return
        part = await self._rt.aio.artifacts.load(filename=name, version=version, **self._ids)
        if part is not None:
            await service.save_artifact(app_name=self._runner.app_name, filename=name, artifact=genai_part(part), **self._ids)
            self._saved[name] = version + 1

    async def shown(self, event: Event) -> Sequence[Any]:
        """The events that ADK has in place of one, see AdkEvents; stored ones are the same objects each time, as in ADK."""
        if event.partial:
            return self._theirs(event, await self._viewed())
        found = self._given.get(event.id)
        if found is None:
            found = self._given[event.id] = self._theirs(event, await self._viewed())
        return found

    def _theirs(self, event: Event, view: AdkEvents) -> Sequence[Any]:
        whole = adk_event(event)
        if ADK_FIELDS in (event.custom_metadata or {}):
            # An island's, which came from ADK.
            return [whole]
        return [_seen(shown, whole) if shown["id"] == event.id else _read(shown) for shown in view.shown(event)]

    async def answer(self, message: types.Content) -> types.Content:
        """The message of a test as the Runtime takes it: answers to calls that only ADK makes go to those for which it does."""
        pending = await self._rt.aio.turns.pending(self._ids["user_id"], self._ids["session_id"])
        given: JsonObject = answered(message.model_dump(mode="json", by_alias=True, exclude_none=True), pending)
        return types.Content.model_validate(given)


def _read(shown: JsonObject) -> AdkEvent:
    return AdkEvent.model_validate(shown)


def _seen(shown: JsonObject, whole: AdkEvent) -> AdkEvent:
    """The event with all that it is to have, which its JSON has not, such as likelihoods."""
    read = _read(shown)
    fields = {name: getattr(read, name) for name in ("author", "node_info", "long_running_tool_ids", "isolation_scope")}
    actions = whole.actions.model_copy(
        update={name: getattr(read.actions, name) for name in ("requested_tool_confirmations", "requested_auth_configs")}
    )
    if read.custom_metadata:
        fields["custom_metadata"] = read.custom_metadata
    if read.get_function_calls() or read.get_function_responses():
        fields["content"] = read.content
    if whole.node_info.path and whole.actions.route is not None:
        # Nodes of ADK's tests say both, also where one is None.
        fields["output"] = whole.output
    return whole.model_copy(update={**fields, "actions": actions})


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.model_dump(mode="json") if hasattr(value, "model_dump") else value for key, value in state.items()}
