"""What programs read of their deployment: the tree and its versions, figures, usage and events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from actors.interfaces.telemetry import EventKind
from actors.layers.updates.versions import VersionInfo, VersionRecord
from runtime.driver.arguments import checked_choice
from runtime.driver.inputs import MAX_NUMBER
from runtime.driver.operation import AppOperation, Command, Option, Table, ago, local_time, table
from runtime.driver.services.agents import DeployedTree
from runtime.driver.services.outline import AgentInfo
from runtime.driver.services.usage import UsageMethods
from runtime.driver.statistics import RuntimeStatistics, read_statistics
from runtime.driver.waits import Awaited, Blocking, M, in_thread, waits
from runtime.observability.logs.kept import EVENT_KINDS, DeploymentEvent


class DeploymentMethods(UsageMethods[M]):
    """The methods of a Runtime, and of its `aio`, that read what there is."""

    _tree: DeployedTree

    @in_thread
    def tree(self, under: str | None = None, *, depth: int | None = None, limit: int = 1_000, offset: int = 0) -> AgentInfo:
        """The agents of the deployment: names, kinds, descriptions, models, tools. `print` it for a drawing.

        Args:
            under: the agent to begin at; None: the root. An agent that is only a tool stands beside the tree.
            depth: how many levels below that agent; None: all.
            limit: how many agents at most. Upper levels come first; `hidden` counts what is not listed.
            offset: how many of the agents right below it are passed over: pages of an agent that has thousands.

        Returns:
            The agent, with those below it as `children`. Iterating it gives them all.

        Raises:
            UnknownAgentError: there is no agent `under`; the message suggests a name.
            RuntimeClosedError: the runtime has joined a deployment, and is not started, or is closed.
        """
        return self._tree.outline(under, depth, limit, offset)

    @in_thread
    def find_agents(
        self,
        text: str = "",
        *,
        kind: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        under: str | None = None,
        limit: int = 100,
    ) -> list[AgentInfo]:
        """Agents of the deployment that fit: by words of their names and descriptions, and by what they are.

        Args:
            text: words; agents that fit them best come first. "" is any agent, in the order of the tree.
            kind: llm, custom, sequential, parallel, loop or flow.
            model, tool: names, as `tree` shows them.
            under: this agent and those below it only.
            limit: how many at most.

        Raises:
            UnknownAgentError, RuntimeClosedError: see `tree`.
        """
        return self._tree.search(text, under, limit, kind=kind, model=model, tool=tool)

    @waits
    async def versions(self) -> list[VersionInfo]:
        """The versions of its tree that the deployment keeps, the newest first. On an event loop: `rt.aio.versions`.

        Raises:
            RuntimeClosedError: the runtime is not started, or is closed.
            ClusterError: they cannot be read.
        """
        return _version_infos(await self._client.engine.trees.record())

    @waits
    async def deployment_events(self) -> Sequence[DeploymentEvent]:
        """Read what has happened to the deployment: the newest events of processes, store and connections, the oldest first."""
        return await self._client.engine.deployment_events()

    @waits
    async def statistics(self) -> RuntimeStatistics:
        """The living actors of the deployment and their counts."""
        return await read_statistics(self._client.engine)


def current_version(rt: DeploymentMethods[Blocking]) -> str:
    """The name of the version that new turns get. Raises what `versions` raises."""
    return next(each.id for each in rt.versions() if each.state == "current")


def _version_infos(record: VersionRecord) -> list[VersionInfo]:
    """The versions in a record, the newest first."""
    shared = record.share.part if record.share is not None else 0.0
    parts = {"current": 1.0 - shared, "shared": shared}
    found = [(kept, record.state(kept.id)) for kept in reversed(record.kept)]
    return [VersionInfo(id=kept.id, state=state, since_s=kept.since_s, part=parts.get(state, 0.0)) for kept, state in found]


class VersionList(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of its tree that a deployment keeps, the newest first."""

    versions: Sequence[VersionInfo]


async def list_tree_versions(rt: DeploymentMethods[Awaited]) -> VersionList:
    """List the versions of its tree that the deployment keeps. For administrators."""
    return VersionList(versions=await rt.versions())


def _versions_table(found: VersionList, given: None) -> Table:
    def cells(of: VersionInfo) -> list[str]:
        since = datetime.fromtimestamp(of.since_s).astimezone().isoformat(" ", "seconds")
        return [of.id, of.state, f"{of.part:.0%}", since]

    return table(found.versions, ("VERSION", "STATE", "NEW SESSIONS", "SINCE"), cells)


class DeploymentEventList(msgspec.Struct, frozen=True, kw_only=True):
    """What has happened to a deployment, the oldest first."""

    events: Sequence[DeploymentEvent]


class DeploymentEventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Only events since then, in seconds since the epoch; only those of a kind, such as "process lost"."""

    since: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)],
        Option("Only of the last 90d, 12h, 30m or 10s.", metavar="AGE", read=ago),
    ] = 0.0
    kind: Annotated[EventKind | None, Option("Only of this kind, such as 'process lost'.")] = None


async def list_deployment_events(rt: DeploymentMethods[Awaited], query: DeploymentEventsQuery) -> DeploymentEventList:
    """List what has happened to the processes, the store and the connections of an app. For administrators."""
    kind = checked_choice("kind", query.kind, EVENT_KINDS) if query.kind is not None else None
    events = await rt.deployment_events()
    return DeploymentEventList(events=[each for each in events if each.at_s >= query.since and kind in (None, each.kind)])


def _events_table(found: DeploymentEventList, query: DeploymentEventsQuery) -> Table:
    columns = ("TIME", "KIND", "PID", "TEXT")
    return table(found.events, columns, lambda each: [local_time(each.at_s), each.kind, each.pid, each.text])


OPERATIONS = [
    AppOperation(
        "GET /v1/apps/{app}/versions",
        list_tree_versions,
        command=Command(
            name="history",
            help="List the versions of its tree that a deployment keeps, the newest first.",
            show=_versions_table,
        ),
    ),
    AppOperation(
        "GET /v1/apps/{app}/events",
        list_deployment_events,
        command=Command(
            name="events",
            help="Print what has happened to the processes, the store and the connections of a deployment, the oldest first.",
            show=_events_table,
        ),
    ),
]
"""What may be asked about a deployment."""
