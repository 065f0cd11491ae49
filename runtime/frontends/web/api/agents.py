"""Apps, their agents, the actors that live, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from actors.messages import protocol as p
from runtime.driver.operation import MAX_NUMBER, Limit, Position
from runtime.driver.services.deployment import RuntimeStatistics
from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.call import Call
from runtime.frontends.web.monitoring import FigureSample
from runtime.frontends.web.operation import HttpOperation

MAX_ACTORS = 10_000
"""Actors of one page: for each, all actors are asked for their figures."""


class AppView(msgspec.Struct, frozen=True, kw_only=True):
    """An app that is served: its name, and its root agent with what that is good for."""

    name: str
    root: str
    description: str = ""


class AppList(msgspec.Struct, frozen=True, kw_only=True):
    """The apps that are served."""

    apps: Sequence[AppView]


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """Agents of a tree. Their `children` are those that were asked for, and `hidden` counts the others below them."""

    agents: Sequence[AgentInfo]


class AgentsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which agents: with `q`, `kind`, `model` or `tool` those that fit; else a part of the tree.

    Attributes:
        under: the agent to begin at; by default the root.
        depth: how many levels below it.
        q: words of names and descriptions.
        kind: llm, custom, sequential, parallel, loop or flow.
        model, tool: names.
        limit: how many agents at most, those above counted; upper levels come first.
        offset: how many of the agents right below the first one are passed over.
    """

    under: str | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    q: str | None = None
    kind: str | None = None
    model: str | None = None
    tool: str | None = None
    limit: Limit = 100
    offset: Position = 0


class ActorView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An actor that lives, or an agent that has lived.

    Attributes:
        kind: what it is.
        name: its name, of an agent's that of the process in which it lives.
        agent: the agent whose actor it is; "" for other actors.
        pid: its process.
        node: of an agent, the address of the machine of its process; "" where there is none.
        memory_bytes: of an agent, the memory that its process has for itself; 0 where that is not known.
        counts: its figures, such as runs under way; of an agent, how often it was activated, too.
        lives: false for an agent that has no actor now; then there is no process either.
    """

    kind: Literal["session", "runner", "agent", "limiter"]
    name: str
    agent: str
    pid: int
    node: str = ""
    memory_bytes: int = 0
    counts: Mapping[str, int]
    lives: bool = True


class ActorList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the actors, agents by their names, those that live first; `next`: the `offset` of the next page."""

    actors: Sequence[ActorView]
    next: int | None = None


class ActorsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which actors: those whose agent's name contains `q`; `asleep`: agents that have lived and do not now, too."""

    q: str = ""
    asleep: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ACTORS)] = 100
    offset: Position = 0


class RecentQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which samples: those taken after `after`, in seconds since 1970, such as the `atS` of the newest one that is known."""

    after: Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)] = 0.0


class RecentFiguresView(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a deployment over the last ten minutes, as far as the server was running.

    Attributes:
        samples: the newest last.
        now: its figures as of the last one, without those of each agent.
    """

    samples: Sequence[FigureSample]
    now: RuntimeStatistics


async def list_apps(call: Call) -> AppList:
    """List the apps that are served."""
    apps = []
    for name, runtime in sorted(call.served.runtimes.items()):
        root = await runtime.aio.tree(depth=0)
        apps.append(AppView(name=name, root=root.name, description=root.description))
    return AppList(apps=apps)


async def list_agents(call: Call) -> AgentList:
    """List agents of the tree by levels, or search them."""
    query = call.query(AgentsQuery)
    aio = call.runtime.aio
    if any(each is not None for each in (query.q, query.kind, query.model, query.tool)):
        found = await aio.find_agents(
            query.q or "", kind=query.kind, model=query.model, tool=query.tool, under=query.under, limit=query.limit
        )
        return AgentList(agents=found)
    root = await aio.tree(query.under, depth=query.depth, limit=query.limit, offset=query.offset)
    return AgentList(agents=[root])


async def list_actors(call: Call) -> ActorList:
    """List the actors that live, and their figures; with `asleep` also agents that have lived. For administrators."""
    call.principal.check_admin()
    query = call.query(ActorsQuery)
    figures = await call.runtime.aio.statistics()
    core = [*_views("session", figures.session), *_views("runner", figures.runner)]
    if figures.limiter is not None:
        core += _views("limiter", figures.limiter)
    agents = [view for name in sorted(figures.agents) for view in _views("agent", figures.agents[name])]
    asleep = [
        ActorView(kind="agent", name="", agent=name, pid=0, counts={"activations": times}, lives=False)
        for name, times in sorted(figures.runner.activations.items())
        if query.asleep and name not in figures.agents
    ]
    found = [view for view in (*core, *agents, *asleep) if query.q.lower() in view.agent.lower()]
    end = query.offset + query.limit
    return ActorList(actors=found[query.offset : end], next=end if end < len(found) else None)


def _views(kind: Literal["session", "runner", "agent", "limiter"], figures: p.Statistics) -> list[ActorView]:
    return [
        ActorView(
            kind=kind,
            name=each.actor,
            agent=each.agent,
            pid=each.pid,
            node=each.node,
            memory_bytes=each.memory_bytes,
            counts=each.counts,
        )
        for each in figures.parts or (figures,)
    ]


async def get_statistics(call: Call) -> RuntimeStatistics:
    """Read the figures of a deployment. For administrators."""
    call.principal.check_admin()
    return await call.runtime.aio.statistics()


async def get_recent_statistics(call: Call) -> RecentFiguresView:
    """Read the figures of a deployment over the last minutes, for charts. For administrators."""
    call.principal.check_admin()
    samples, now = await call.served.recent.read(call.runtime.app_name, call.query(RecentQuery).after)
    # A tree may have thousands: they are among the actors.
    runner = msgspec.structs.replace(now.runner, agents=(), activations={})
    return RecentFiguresView(samples=samples, now=msgspec.structs.replace(now, agents={}, runner=runner))


OPERATIONS = [
    HttpOperation("GET", "/v1/apps", list_apps, gives=AppList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/agents", list_agents, query=AgentsQuery, gives=AgentList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/actors", list_actors, query=ActorsQuery, gives=ActorList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/statistics", get_statistics, gives=RuntimeStatistics, users="none"),
    HttpOperation(
        "GET",
        "/v1/apps/{app}/statistics/recent",
        get_recent_statistics,
        query=RecentQuery,
        gives=RecentFiguresView,
        users="none",
    ),
]
"""What can be asked of apps."""
