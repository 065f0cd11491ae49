"""A deployment gets another tree while it runs, and goes back to the one before.

What an update has done stands where actors find it that are started again, before it tells any of them, and before it returns. A
program that is lost on the way leaves the old tree or the new one; the next update tells all actors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from actors.definitions.agents import BaseAgent, Plugin
from actors.errors import ClusterError, RequestError, UpdateConflictError, UpdateRefusedError
from actors.errors.hints import some_of
from actors.layers.compaction.definitions import EventsCompactionConfig
from actors.layers.flows.definitions import Flow
from actors.layers.listing.messages import PendingCall
from actors.layers.trees.tree import Adapted, AgentTree
from actors.layers.updates.messages import GetVersions, LoadVersion, UseVersions
from actors.layers.updates.rules import rolled_back, tree_difference, updated
from actors.layers.updates.versions import (
    KeptVersion,
    TreeDifference,
    TreeVersion,
    UpdateReport,
    VersionRecord,
)
from actors.messages.event import now_s
from actors.messages.topology import FLOW
from runtime.driver.engine_client import EngineClient
from runtime.driver.services.deployed_tree import DeployedTree, checked_tree
from runtime.driver.services.services import Services, TurnCalls
from runtime.driver.turns.finding import CallQuery, found_calls
from runtime.driver.turns.program_turns import ProgramTurns
from runtime.driver.waits import M, in_thread
from runtime.engine.deployment import plans_of
from runtime.settings import Settings

SHOWN = 3
"""Calls and agents that an error names."""

MANY = 100_000


class UpdateMethods(Services[M]):
    """The methods of a Runtime, and of its `aio`, that give the deployment other trees.

    Args:
        program: makes turns for the Runtime.
    """

    def __init__(self, client: EngineClient, mode: type[M], tree: DeployedTree, calls: TurnCalls, program: ProgramTurns) -> None:
        super().__init__(client, mode, tree, calls)
        self._program = program
        self._answer = calls.answer

    @in_thread
    def update(
        self,
        root_agent: BaseAgent | Flow | object,
        *,
        plugins: Sequence[Plugin] | None = None,
        mask_requests: Callable[[str], str] | None = None,
        islands: bool = False,
        share: float | None = None,
        force: bool = False,
        dry_run: bool = False,
        events_compaction_config: EventsCompactionConfig | None = None,
    ) -> UpdateReport:
        """Give the deployment another tree while it runs. On an event loop: `rt.aio.update`.

        New turns begin with the new tree. Turns that run, and turns that are paused, go on with the one that they began with.
        Agents that are the same in both keep their processes; the others get new ones, with their code as it is now. Settings,
        stores, and limits of models stay as they are.

        Args:
            root_agent: the root of the new tree: see Runtime.
            plugins: of the new tree; None: those of the old one, which only the program knows that has given them.
            mask_requests: see Runtime; None: as it is.
            islands: see Runtime.
            events_compaction_config: see Runtime; None: as it is, which only the program knows that has given it.
            share: a part of the sessions that are created from now on, above 0 and below 1: the others stay with the old tree,
                until the next update or `rollback`.
            force: agents may be removed whose calls wait for an answer: such a call is answered with an error.
            dry_run: only tell what would be done.

        Returns:
            The names of both versions, and how they differ.

        Raises:
            DefinitionError: the new tree is defined wrongly, or cannot travel to its actors.
            UpdateRefusedError: a call of an agent waits that is in the new tree no more, or something cannot be changed this way.
            UpdateConflictError: another program has updated the deployment at the same time.
            RequestError: an argument is wrong.
            RuntimeClosedError: the runtime is not started, or is closed.
            ClusterError: actors do not answer, or cannot load the tree: then nothing has changed.
        """
        began_s = time.monotonic()
        self._program.client()
        part = _checked_share(share)
        settings = self._client.engine.settings
        if settings is None:
            raise self._client.not_open()
        record, current = self._client.run(_current(self._client))
        tree = self._merged_tree(root_agent, plugins, mask_requests, settings, current, events_compaction_config, islands=islands)
        after = tree.version
        difference = tree_difference(current, after)
        _refuse_changed_flows(self._client.app_name, current, after, difference)
        orphans = [] if part < 1.0 else self._orphans(difference.removed)
        if orphans and not force:
            raise _still_asked(self._client.app_name, orphans)
        report = UpdateReport(version=after.id, before=current.id, difference=difference, part=part)
        if dry_run:
            return msgspec.structs.replace(report, dry_run=True, took_s=time.monotonic() - began_s)
        self._client.run(_update(self._client, record, tree, part))
        if part == 1.0:
            self._tree.follow(after.id, tree)
        for flow, plan in plans_of(tree).items():
            self._program.types.add(flow, plan.results)
        answered = [call.call_id for call in orphans if self._refuse(call)]
        return msgspec.structs.replace(report, answered=answered, took_s=time.monotonic() - began_s)

    @in_thread
    def rollback(self) -> UpdateReport:
        """Go back to the tree before the last update; a second time, to the one after it. On an event loop: `rt.aio.rollback`.

        Of a version with a share, no new session gets it any more. What holds for turns is said at `update`.

        Returns:
            The names of both versions, and how they differ.

        Raises:
            RequestError: there is no version before.
            UpdateRefusedError, UpdateConflictError, RuntimeClosedError, ClusterError: see `update`.
        """
        began_s = time.monotonic()
        self._program.client()
        record, after, difference = self._client.run(_roll_back(self._client))
        self._tree.follow(after, None)
        before = record.share.version if record.share is not None else record.current
        took_s = time.monotonic() - began_s
        return UpdateReport(version=after, before=before, difference=difference, took_s=took_s)

    def _merged_tree(
        self,
        root_agent: object,
        plugins: Sequence[Plugin] | None,
        mask: Callable[[str], str] | None,
        settings: Settings,
        current: TreeVersion,
        compaction: EventsCompactionConfig | None,
        *,
        islands: bool,
    ) -> AgentTree:
        """The new tree, with plugins and a mask of the old one. Raises UpdateRefusedError if this program does not know these."""
        own = self._tree.definitions
        if own is not None:
            mask, compaction = mask or own.recording.mask, compaction or own.compaction
            brings_plugins = islands or isinstance(root_agent, Adapted)
            plugins = own.plugins if plugins is None and not brings_plugins else plugins
        tree = checked_tree(
            root_agent, self._client.app_name, plugins or (), settings, mask, islands=islands, compaction=compaction
        )
        if current.is_masked and mask is None:
            reason = "what is recorded of its requests is masked, by a function that this program does not have"
            raise UpdateRefusedError(self._client.app_name, reason, "Give mask_requests")
        if plugins is None and len(tree.plugins) < current.plugins:
            reason = f"it has {current.plugins} plugins, which this program does not have"
            raise UpdateRefusedError(self._client.app_name, reason, "Give plugins; plugins=[] leaves them out")
        return tree

    def _orphans(self, removed: Sequence[str]) -> list[PendingCall]:
        """The calls that wait for an answer, of agents that are removed."""
        gone = set(removed)
        waiting = self._client.run(found_calls(self._client, CallQuery(), MANY)) if gone else []
        return [call for calls in waiting for call in calls if call.agent in gone]

    def _refuse(self, call: PendingCall) -> bool:
        """Answer a call of an agent that is removed. Returns False when it was answered meanwhile."""
        error = {"error": f"agent {call.agent!r} was removed from the deployment, and this call is not answered any more"}
        refusal: object = False if call.is_confirmation else error
        turn = self._answer({call.call_id: refusal}, user_id=call.user_id, session_id=call.session_id, on_leave="continue")
        try:
            self._client.run(turn.aio.started())
        except RequestError:
            return False
        return True


async def _current(client: EngineClient) -> tuple[VersionRecord, TreeVersion]:
    record = await client.engine.trees.record()
    return record, await client.engine.trees.version(record.current)


async def _update(client: EngineClient, record: VersionRecord, tree: AgentTree, part: float) -> None:
    engine, version = client.engine, tree.version
    is_same = version.id == record.current and record.share is None
    if not is_same:
        await engine.trees.keep_tree(tree)
        async with _conflicts(client, record):
            await engine.runner.ask(LoadVersion(version=version.id))
        kept = KeptVersion(version.id, now_s(), has_tasks=version.topology.has_tasks)
        record = updated(record, kept, part, await _in_use(client, record))
        await engine.trees.keep_record(record)
    await _tell(client, record)


async def _roll_back(client: EngineClient) -> tuple[VersionRecord, str, TreeDifference]:
    engine = client.engine
    before = await engine.trees.record()
    record = rolled_back(before, await _in_use(client, before))
    left = before.share.version if before.share is not None else before.current
    async with _conflicts(client, before):
        difference = tree_difference(await engine.trees.version(left), await engine.trees.version(record.current))
    await engine.trees.keep_record(record)
    await _tell(client, record)
    return before, record.current, difference


async def _in_use(client: EngineClient, record: VersionRecord) -> Sequence[str]:
    """The versions that open turns still use; new turns use only recorded ones."""
    session = client.engine.session
    async with _conflicts(client, record):
        # A program that was lost may have kept it and not told them.
        await session.ask(UseVersions(record=record))
    return (await session.ask(GetVersions(app=client.app_name))).versions


@asynccontextmanager
async def _conflicts(client: EngineClient, record: VersionRecord) -> AsyncIterator[None]:
    """Raise UpdateConflictError where a version is not there since another program has updated the deployment after a record."""
    try:
        yield
    except ClusterError as error:
        if (await client.engine.trees.record()).number != record.number:
            raise UpdateConflictError(client.app_name) from error
        raise


async def _tell(client: EngineClient, record: VersionRecord) -> None:
    """Tell all actors. Each learns it by itself when it is started again."""
    engine, news = client.engine, UseVersions(record=record)
    try:
        async with _conflicts(client, record):
            await asyncio.gather(engine.session.ask(news), engine.runner.ask(news))
    except UpdateConflictError:
        # A version of this record is not kept any more; its update was done all the same.
        await _tell(client, await engine.trees.record())


def _checked_share(share: float | None) -> float:
    if share is None:
        return 1.0
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share < 1:
        raise RequestError(f"share is a part of the new sessions, above 0 and below 1, not {share!r}")
    return float(share)


def _refuse_changed_flows(app: str, before: TreeVersion, after: TreeVersion, difference: TreeDifference) -> None:
    """Refuse other tasks for a flow of the tree: agents look them up by its name, also those of turns that run."""
    for name in difference.changed:
        if before.topology[name].kind == after.topology[name].kind == FLOW:
            reason = f"flow {name!r} has other tasks or agents, and its turns look them up by its name"
            raise UpdateRefusedError(app, reason, "Give the changed flow another name")


def _still_asked(app: str, calls: Sequence[PendingCall]) -> UpdateRefusedError:
    named = some_of([f"{call.call_id!r} of {call.name} of agent {call.agent!r}" for call in calls], SHOWN)
    reason = f"calls wait for an answer whose agents are not in the new tree: {named}"
    return UpdateRefusedError(
        app, reason, "Answer them, leave the agents in the tree, or update with force, which answers with an error"
    )
