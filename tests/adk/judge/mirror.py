"""One session in two places: in the Runtime's log, and in the session service of a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from google.adk.runners import Runner

from actors.messages.event import Event, EventActions
from actors.rules.routing.branches import tool_root
from runtime import Runtime
from runtime.integrations.adk.contents import adk_event, genai_part, own_event, own_part


def is_shown(event: Event) -> bool:
    """True for an event that ADK's Runner has as well: no checkpoint, nor said by an agent that is a tool."""
    return event.actions.agent_state is None and event.flow is None and not tool_root(event.branch)


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
        self._given: dict[str, Any] = {}

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
        news = []
        while True:
            page = await self._rt.aio.sessions.events(self._ids["user_id"], self._ids["session_id"], after_seq=self.seq)
            page = [event for event in page if seq is None or event.seq <= seq]
            for event in page:
                self.seq = event.seq
                if event.id not in self._known:
                    news.append(await self._store(event))
            if not page:
                break
        self._state = dict((await self._session()).state)
        return news

    async def _store(self, event: Event) -> Any:
        self._known.add(event.id)
        theirs = self.shown(event)
        for name, version in event.actions.artifact_delta.items():
            await self._store_artifact(name, version)
        if is_shown(event):
            self._known.add(theirs.id)
            await self._runner.session_service.append_event(session=await self._session(), event=theirs)
        elif event.actions.state_delta:
            session = await self._session()
            actions = EventActions(state_delta=dict(event.actions.state_delta))
            silent = adk_event(msgspec.structs.replace(event, content=None, actions=actions))
            await self._runner.session_service.append_event(session=session, event=silent)
        return theirs

    async def _store_artifact(self, name: str, version: int) -> None:
        service = self._runner.artifact_service
        if service is None or version < self._saved.get(name, 0):
            return
        part = await self._rt.aio.artifacts.load(filename=name, version=version, **self._ids)
        if part is not None:
            await service.save_artifact(app_name=self._runner.app_name, filename=name, artifact=genai_part(part), **self._ids)
            self._saved[name] = version + 1

    def shown(self, event: Event) -> Any:
        """An event as ADK's; a stored one is the same object each time, as with ADK's session in memory."""
        if event.partial:
            return adk_event(event)
        found = self._given.get(event.id)
        if found is None:
            found = self._given[event.id] = adk_event(event)
        return found


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.model_dump(mode="json") if hasattr(value, "model_dump") else value for key, value in state.items()}
