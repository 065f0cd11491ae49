"""Clients of several Session actors, or of several Runners, that serve one shard of the sessions each.

A client of several is used as if there were one actor. Where there is only one, its plain client is used, at no extra cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from actors.errors import RaygroveError
from actors.messages import protocol as p
from actors.messages.operating.versions import VersionRecord
from actors.messages.session import SessionKey, Shard
from actors.messages.turn_info import TurnCounts, TurnInfo
from actors.refs.base import Ref
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef, added_up
from actors.refs.statistics import total
from actors.rules.capacity.sharding import all_shards, may_share, shard_of
from actors.rules.placing.owners import session_key_of

M = TypeVar("M", bound=p.Message)


class _ShardedRef(Ref):
    """A client of several actors, which has one of them answer a message about a session."""

    def _shard(self, message: p.Message) -> Ref:
        raise NotImplementedError

    async def _ask(
        self,
        message: p.Message,
        reply_type: type[M] | tuple[type[M], ...],
        *,
        once: bool = False,
        early: Callable[[p.Message], None] | None = None,
    ) -> M:
        return await self._shard(message)._ask(message, reply_type, once=once, early=early)


class ShardedSessionRef(_ShardedRef, SessionRef):
    """A client of several Session actors.

    A message about a session goes to the actor that serves it; a message for all of them goes to each. A subscriber is known only
    to the actor to which it has subscribed, so it uses `of` for a client of that one.

    Args:
        shards: their clients, in order.
    """

    def __init__(self, shards: Sequence[SessionRef]) -> None:
        self._shards = tuple(shards)

    @property
    def shards(self) -> Sequence[SessionRef]:
        """A client of each, in order."""
        return self._shards

    def sharing(self, shard: Shard) -> Sequence[SessionRef]:
        """A client of each that serves any session of a Runner's shard: of as many as there are Runners, one."""
        own = all_shards(len(self._shards))
        return [session for session, each in zip(self._shards, own, strict=True) if may_share(each, shard)]

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the actor that serves a session."""
        return self._shards[shard_of(key, len(self._shards))]

    def _shard(self, message: p.Message) -> SessionRef:
        return self.of(_session_of(message))

    async def list_turns(self, message: p.ListTurns) -> list[TurnInfo]:
        """List turns: any of them reads the store, and each knows its own lines."""
        if message.session is not None or message.before is not None:
            return await super().list_turns(message)
        chosen = self.of(_session_of(message))
        in_line = msgspec.structs.replace(message, state="waiting")
        others = [shard for shard in self._shards if shard is not chosen and message.state in ("", "waiting")]
        found, *of_others = await asyncio.gather(chosen.list_turns(message), *(other.list_turns(in_line) for other in others))
        waiting = {(turn.user_id, turn.session_id, turn.invocation_id): turn for turns in of_others for turn in turns}
        rest = [turn for turn in found if (turn.user_id, turn.session_id, turn.invocation_id) not in waiting]
        return [*waiting.values(), *rest][: message.limit]

    async def count_turns(self, app: str) -> TurnCounts:
        """Count turns: one of them asks the store, and each knows its own lines."""
        asked = (shard.counted(p.CountTurns(app=app, in_line_only=at > 0)) for at, shard in enumerate(self._shards))
        return added_up(await asyncio.gather(*asked))

    async def topology_after(self, known: str) -> p.TopologyReply:
        """The parent map, which all of them have."""
        return await self._shards[0].topology_after(known)

    async def versions_in_use(self, app: str) -> tuple[str, ...]:
        """The versions that turns of any of them have begun with which are open or paused."""
        found = await asyncio.gather(*(shard.versions_in_use(app) for shard in self._shards))
        return tuple(sorted({version for each in found for version in each}))

    async def use_versions(self, record: VersionRecord) -> None:
        """Have all of them go by another record. Raises the first error, after all have replied."""
        await _all(shard.use_versions(record) for shard in self._shards)

    async def open_store(self) -> None:
        """Have all of them open their stores. Raises the first error, after all have replied."""
        await _all(shard.open_store() for shard in self._shards)

    async def hold_user(self, message: p.HoldUser) -> p.UserHeld:
        """Hold a user in all of them, and tell what is under way in any."""
        held = await asyncio.gather(*(shard.hold_user(message) for shard in self._shards))
        return p.UserHeld(
            turns=[turn for each in held for turn in each.turns],
            is_idle=all(each.is_idle for each in held),
            is_held=all(each.is_held for each in held),
        )

    async def release_user(self, message: p.ReleaseUser) -> None:
        """Release a user in all of them. Raises the first error, after all have replied."""
        await _all(shard.release_user(message) for shard in self._shards)

    async def statistics(self) -> p.Statistics:
        """Their figures, summed up."""
        return total(await asyncio.gather(*(shard.statistics() for shard in self._shards)))

    async def note_drain(self, message: p.Drain) -> p.Draining:
        """Have all of them keep that the deployment drains."""
        return _all_left(await asyncio.gather(*(shard.note_drain(message) for shard in self._shards)))

    async def stop(self) -> None:
        """Stop all of them. Raises the first error, after all have replied."""
        await _all(shard.stop() for shard in self._shards)


class ShardedRunnerRef(_ShardedRef, RunnerRef):
    """A client of several Runners: a message about a session goes to the Runner of its shard, one for all of them to each.

    Args:
        shards: their clients, in order.
    """

    def __init__(self, shards: Sequence[RunnerRef]) -> None:
        self._shards = tuple(shards)

    @property
    def count(self) -> int:
        """The number of Runners."""
        return len(self._shards)

    def number_of(self, key: SessionKey) -> int:
        """The number of the one that serves a session, from 0."""
        return shard_of(key, len(self._shards))

    def _shard(self, message: p.Message) -> RunnerRef:
        return self._shards[self.number_of(_session_of(message))]

    async def cancel_waiting_turns(self, message: p.CancelWaitingTurns) -> None:
        """Cancel the waiting turns of a user in all of them. Raises the first error, after all have replied."""
        await _all(shard.cancel_waiting_turns(message) for shard in self._shards)

    async def watch_schedules(self) -> None:
        """Have all of them start what is due. Raises the first error, after all have replied."""
        await _all(shard.watch_schedules() for shard in self._shards)

    async def statistics(self) -> p.Statistics:
        """Their figures, summed up, and those of every live agent."""
        return total(await asyncio.gather(*(shard.statistics() for shard in self._shards)))

    async def load_version(self, version: str) -> None:
        """Have all of them load a version. Raises the first error, after all have replied."""
        await _all(shard.load_version(version) for shard in self._shards)

    async def use_versions(self, record: VersionRecord) -> None:
        """Have all of them go by another record. Raises the first error, after all have replied."""
        await _all(shard.use_versions(record) for shard in self._shards)

    async def resume_turns(self) -> None:
        """Have all of them go on with what was left open. Raises the first error, after all have replied."""
        await _all(shard.resume_turns() for shard in self._shards)

    async def drain(self, message: p.Drain) -> p.Draining:
        """Have all of them begin no new turn for a while."""
        return _all_left(await asyncio.gather(*(shard.drain(message) for shard in self._shards)))

    async def stop(self, *, leave_turns: bool = False) -> None:
        """Stop all of them. Raises the first error, after all have replied."""
        await _all(shard.stop(leave_turns=leave_turns) for shard in self._shards)


def session_client(shards: Sequence[SessionRef]) -> SessionRef:
    """The client of a deployment's Session actors, made of a client of each."""
    return shards[0] if len(shards) == 1 else ShardedSessionRef(shards)


def runner_client(shards: Sequence[RunnerRef]) -> RunnerRef:
    """The client of a deployment's Runners, made of a client of each."""
    return shards[0] if len(shards) == 1 else ShardedRunnerRef(shards)


def _session_of(message: p.Message) -> SessionKey:
    """The session by which a message is routed. Any actor can serve a message about a user: the user's key spreads those."""
    match message:
        case p.SearchMemory(app=app, user=user) | p.ListSessionsRequest(app=app, user=user) | p.RemoveUser(app=app, user=user):
            return SessionKey(app, user or "", "")
        case p.SaveBatch(app=app) | p.ListBatches(app=app) | p.ListBatchItems(app=app):
            return SessionKey(app, "", "")
        case p.FindOldSessions(app=app, user=user) | p.ListSchedules(app=app, user=user):
            return SessionKey(app, user or "", "")
        case p.ListTurns(app=app, user=user, session=session) | p.ListPending(app=app, user=user, session=session):
            return SessionKey(app, user or "", session or "")
        case p.GetUsage(app=app, user=user, session=session):
            return SessionKey(app, user or "", session or "")
    key = session_key_of(message)
    if key is None:
        raise RaygroveError(f"{type(message).__name__} is for one actor of several: ask that one, which `of` gives for a session")
    return key


def _all_left(replies: Sequence[p.Draining]) -> p.Draining:
    return p.Draining(left=sum(reply.left for reply in replies))


async def _all(asked: Iterable[Awaitable[None]]) -> None:
    errors = [error for error in await asyncio.gather(*asked, return_exceptions=True) if error is not None]
    if errors:
        raise errors[0]
