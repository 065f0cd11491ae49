"""Forks of sessions: `rt.sessions.fork` and `rt.aio.sessions.fork`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

from actors.layers.forks.messages import ForkSession
from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_id, checked_known_id
from runtime.driver.waits import M, RuntimeService

USERS = "user:"
"""Artifacts with such names are those of all sessions of a user."""


class ForkMethods(RuntimeService[M]):
    """Makes forks, as a part of the sessions service."""

    async def _forked(self, key: SessionKey, invocation_id: str, fork: str | None) -> SessionKey:
        turn = checked_known_id("invocation id", invocation_id)
        to = SessionKey(key.app, key.user, checked_id("session id", fork) if fork is not None else uuid.uuid4().hex)
        info = await self._client.session.get_turn(p.GetTurn(key=key, invocation_id=turn))
        await self._client.session.ask(ForkSession(key=key, invocation_id=turn, fork=to.session))
        versions = await self._versions(key, info.last_seq)
        await asyncio.to_thread(self._copy_artifacts, key, to, versions)
        return to

    async def _versions(self, key: SessionKey, last_seq: int) -> dict[str, int]:
        """The newest version of each artifact of the session alone, as its events up to a position say."""
        found: dict[str, int] = {}
        async for saved in self._saved(key, 0, last_seq + 1):
            found.update(saved)
        return found

    async def _saved(self, key: SessionKey, after_seq: int, before_seq: int | None) -> AsyncIterator[dict[str, int]]:
        """Yield the artifacts of the session alone that each event between two positions has saved: their versions, by name."""
        more = True
        while more:
            page = await self._client.session.read_log(
                p.ReadLog(key=key, after_seq=after_seq, before_seq=before_seq, limit=1_000, newest_first=False)
            )
            for stored in page.events:
                saved = decode_event(stored.raw, stored.seq).actions.artifact_delta
                yield {name: version for name, version in saved.items() if not name.startswith(USERS)}
            more = page.more and bool(page.events)
            after_seq = page.events[-1].seq if page.events else after_seq

    def _copy_artifacts(self, key: SessionKey, to: SessionKey, versions: dict[str, int]) -> None:
        store = self._client.artifacts
        for name, newest in versions.items():
            for version in range(newest + 1):
                part = store.load(key, name, version)
                # One that was deleted leaves no hole: versions are numbered as they come.
                if part is not None:
                    store.save(to, name, part)
