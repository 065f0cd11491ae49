"""What programs read of their deployment: the tree and its versions, figures, usage and events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from actors.errors import RequestError
from actors.interfaces.telemetry import EventKind
from actors.layers.spending.messages import USAGE_BY, GetUsage, UsageBy, UsageReport, UsageSums
from actors.layers.updates.versions import VersionInfo, VersionRecord
from actors.messages import protocol as p
from actors.messages.protocol.statistics import ConnectionFigures, Statistics
from actors.messages.session import SessionKey
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.ids import checked_id
from runtime.driver.arguments import checked_choice, checked_time
from runtime.driver.operation import MAX_NUMBER, AppOperation, Command, Id, Option, Table, TableLine, ago, local_time, table
from runtime.driver.services.deployed_tree import DeployedTree
from runtime.driver.services.outline import AgentInfo
from runtime.driver.waits import Awaited, Blocking, M, RuntimeService, in_thread, waits
from runtime.engine.interface import Engine
from runtime.observability.logs.kept import EVENT_KINDS, DeploymentEvent


class DeploymentMethods(RuntimeService[M]):
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

    @waits
    async def usage(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        *,
        since: float | datetime | None = None,
        by: UsageBy | None = None,
    ) -> UsageReport:
        """Add up what turns have used: tokens, model calls, tool calls, seconds, and money where models have a price.

        Agents of all kinds count, and turns that failed, were rewound or still run: they are paid for. What was deleted does not.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            invocation_id: that turn of the session only.
            since: only turns that began then or later: a datetime, or seconds since the epoch.
            by: "agent", "model", "user", "day" (by UTC, when the turn began) or "version" (of the tree: see `update`): the report
                has the sums of each in `groups`; or "turn": it has the turns that cost most in `turns`.

        Raises:
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        if session_id is not None and user_id is None:
            raise RequestError("session_id names a session of a user: give user_id, too")
        if invocation_id is not None and session_id is None:
            raise RequestError("invocation_id names a turn of a session: give user_id and session_id, too")
        since_s = since.timestamp() if isinstance(since, datetime) else since
        reply = await self._client.session.ask(
            GetUsage(
                app=self._client.app_name,
                user=checked_id("user id", user_id) if user_id is not None else None,
                session=checked_id("session id", session_id) if session_id is not None else None,
                invocation_id=checked_id("invocation id", invocation_id) if invocation_id is not None else "",
                since_s=checked_time("since", since_s) if since_s is not None else 0.0,
                by=checked_choice("by", by, USAGE_BY) if by is not None else "",
            )
        )
        return reply.report

    @waits
    async def usages(self, turns: Iterable[TurnInfo]) -> Sequence[UsageReport]:
        """Tell what each of these turns has used, in their order: as `usage` of each does, with a request for a hundred of them.

        Args:
            turns: as `rt.turns.list` gives them.

        Raises:
            StoreError: the store cannot be read.
        """
        app, session = self._client.app_name, self._client.session
        named = [(SessionKey(app, turn.user_id, turn.session_id), turn.invocation_id) for turn in turns]
        found: list[UsageReport] = []
        for start in range(0, len(named), AT_ONCE):
            page = named[start : start + AT_ONCE]
            found += (await session.ask(GetUsage(app=app, turns=page))).reports
        return found


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


AT_ONCE = 100
"""Turns of one request."""


class UsageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose usage, and by what it is listed; `turn` goes with `session`, `since` is in seconds since the epoch."""

    session: Annotated[Id | None, Option("Only turns of this session.")] = None
    turn: Annotated[Id | None, Option("Only this turn; with --session.")] = None
    since: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None,
        Option("Only turns that began since then: 30d, 12h, 15m.", metavar="AGE", read=ago),
    ] = None
    by: Annotated[
        UsageBy | None, Option("List them by agent, model, user, day or version; or the turns that cost most: turn.")
    ] = None


async def get_usage(rt: DeploymentMethods[Awaited], query: UsageQuery, user_id: str | None) -> UsageReport:
    """Add up what the turns of a user have used, or with credentials for any user those of the whole app."""
    if query.turn is not None and query.session is None:
        raise RequestError("turn names a turn of a session: give session, too")
    return await rt.usage(user_id, query.session, query.turn, since=query.since, by=query.by)


def _usage_table(report: UsageReport, query: UsageQuery) -> Table:
    named = [(name or "-", sums) for name, sums in report.groups.items()]
    named += [(f"{each.user_id} {each.session_id} {each.invocation_id}", each.sums) for each in report.turns]
    lines = [
        TableLine(_usage_cells(name, sums, with_money=bool(report.currency)), {query.by or "of": name, "sums": sums})
        for name, sums in [*named, ("all", report.total)]
    ]
    columns = [(query.by or "").upper(), "CALLS", "TOOLS", "INPUT", "CACHED", "OUTPUT", "REASONING", "SECONDS"]
    if not report.currency:
        return Table(columns, lines, report)
    unpriced = ", ".join(each or "a model without a name" for each in report.unpriced)
    return Table([*columns, report.currency], lines, report, f"without a price: {unpriced}" if unpriced else "")


def _usage_cells(name: str, sums: UsageSums, *, with_money: bool) -> list[str]:
    counts = (sums.llm_calls, sums.tool_calls, sums.input_tokens, sums.cached_tokens, sums.output_tokens, sums.reasoning_tokens)
    money = ["-" if sums.money is None else f"{sums.money:.4f}"] if with_money else []
    return [name, *map(str, counts), f"{sums.seconds:.1f}", *money]


class RuntimeStatistics(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """The living actors of a deployment and their counts.

    Attributes:
        session, runner: the Session actor and the Runner. Where there are several of a kind, sums, and `parts` has each.
        agents: the agents that have an actor, by name, each with its actor's name, process id and counts. An agent that several
            Runners have started has sums and `parts` too.
        processes: the processes in which these agents live, by the names of their Ray actors; none on the local engine. How many
            there may be is in `runner.counts["max_hosts"]`, and why so many in `runner.host_limit`.
        models: by name, how many calls of a model with limits were granted, repeated, run and wait.
        limiter: the actor that limits models; None where no model is limited.
        mcp: the actors of MCP servers that have started, by the names of the servers.
        connections: how messages travel to and from this program; None on the local engine. Those of the other processes are in
            `connections` of their actors.
        control_service_away_s: for how long this program has not reached the control service of Ray; 0: it does.
    """

    session: p.Statistics
    runner: p.Statistics
    agents: Mapping[str, p.Statistics]
    processes: Mapping[str, ProcessStatistics] = {}
    models: Mapping[str, Mapping[str, int]] = {}
    limiter: p.Statistics | None = None
    mcp: Mapping[str, p.Statistics] = {}
    connections: p.ConnectionFigures | None = None
    control_service_away_s: float = 0.0


async def read_statistics(engine: Engine) -> RuntimeStatistics:
    """Ask the deployment's actors for their counts. Raises what their clients raise."""
    runner, session = await asyncio.gather(engine.runner.statistics(), engine.session.statistics())
    limiter = await engine.limiter.statistics() if engine.limiter is not None else None
    servers = await engine.mcp_servers()
    figures = await asyncio.gather(*(server.statistics() for server in servers.values()))
    processes = by_process(runner.agents) if runner.host_limit else {}
    return RuntimeStatistics(
        session=session,
        runner=runner,
        agents=by_agent(runner.agents),
        processes=processes,
        models=limiter.models if limiter is not None else {},
        limiter=limiter,
        mcp=dict(zip(servers, figures, strict=True)),
        connections=engine.connections(),
        control_service_away_s=engine.control_service_away_s,
    )


class ProcessStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A process with agents.

    Attributes:
        agents: the agents that live in it, in the order in which they moved in; replicas as `agent/1`, `agent/2` …
        connections: how messages travel to and from it.
        node: the address of its machine.
        memory_bytes: the memory that it has for itself; 0 where that is not known.
    """

    pid: int
    agents: Sequence[str]
    connections: ConnectionFigures | None = None
    node: str = ""
    memory_bytes: int = 0


def by_process(statistics: Iterable[Statistics]) -> dict[str, ProcessStatistics]:
    """The processes of agents, by the names of their Ray actors."""
    found: dict[str, list[Statistics]] = {}
    for each in statistics:
        found.setdefault(each.actor, []).append(each)
    return {
        actor: ProcessStatistics(
            pid=living[0].pid,
            agents=[each.agent for each in living],
            connections=living[0].connections,
            node=living[0].node,
            memory_bytes=living[0].memory_bytes,
        )
        for actor, living in found.items()
    }


def by_agent(statistics: Iterable[Statistics]) -> dict[str, Statistics]:
    """The statistics of agents by their names. An agent may have several actors."""
    found: dict[str, list[Statistics]] = {}
    for each in statistics:
        found.setdefault(each.agent, []).append(each)
    return {agent: Statistics.joined(parts) for agent, parts in found.items()}


OPERATIONS = [
    AppOperation(
        "GET /v1/apps/{app}/usage",
        get_usage,
        for_admins=False,
        command=Command(
            name="usage",
            help="Add up what turns have used: model calls, calls of tools, tokens, seconds, and money where models have prices.",
            user_help="Only turns of this user.",
            show=_usage_table,
            watched=True,
        ),
    ),
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
