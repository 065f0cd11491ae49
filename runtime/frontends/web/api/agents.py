"""Apps, their agents, the actors that live, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from actors.messages import protocol as p
from runtime.driver.services.agents import AgentInfo
from runtime.driver.statistics import RuntimeStatistics
from runtime.frontends.web.api.sessions import Limit, Position
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation


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
    """An actor that lives.

    Attributes:
        kind: what it is.
        name: its name, of an agent's that of the process in which it lives.
        agent: the agent whose actor it is; "" for other actors.
        pid: its process.
        counts: its figures, such as runs under way.
    """

    kind: Literal["session", "runner", "agent", "limiter"]
    name: str
    agent: str
    pid: int
    counts: Mapping[str, int]


class ActorList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the living actors, agents by their names; `next`: the `offset` of the next page."""

    actors: Sequence[ActorView]
    next: int | None = None


class ActorsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which actors: those whose agent's name contains `q`."""

    q: str = ""
    limit: Limit = 100
    offset: Position = 0


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
    """List the actors that live, and their figures. For administrators."""
    call.principal.check_admin()
    query = call.query(ActorsQuery)
    figures = await call.runtime.aio.statistics()
    core = [*_views("session", figures.session), *_views("runner", figures.runner)]
    if figures.limiter is not None:
        core += _views("limiter", figures.limiter)
    agents = [view for name in sorted(figures.agents) for view in _views("agent", figures.agents[name])]
    found = [view for view in (*core, *agents) if query.q.lower() in view.agent.lower()]
    end = query.offset + query.limit
    return ActorList(actors=found[query.offset : end], next=end if end < len(found) else None)


def _views(kind: Literal["session", "runner", "agent", "limiter"], figures: p.Statistics) -> list[ActorView]:
    return [
        ActorView(kind=kind, name=each.actor, agent=each.agent, pid=each.pid, counts=each.counts)
        for each in figures.parts or (figures,)
    ]


async def get_statistics(call: Call) -> RuntimeStatistics:
    """Read the figures of a deployment. For administrators."""
    call.principal.check_admin()
    return await call.runtime.aio.statistics()


OPERATIONS = [
    HttpOperation("GET", "/v1/apps", list_apps, gives=AppList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/agents", list_agents, query=AgentsQuery, gives=AgentList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/actors", list_actors, query=ActorsQuery, gives=ActorList, users="none"),
    HttpOperation("GET", "/v1/apps/{app}/statistics", get_statistics, gives=RuntimeStatistics, users="none"),
]
"""What can be asked of apps."""
