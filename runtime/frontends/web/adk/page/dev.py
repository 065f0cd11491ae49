"""The paths below `/dev`, which only ADK's page asks for: graphs and traces. Lists of evaluations are empty."""

from __future__ import annotations

import asyncio
import logging

from starlette.responses import PlainTextResponse, Response

from actors.messages.json_types import JsonObject
from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.page.dot import dot_of
from runtime.frontends.web.adk.page.spans import spans_of
from runtime.frontends.web.adk.page.tree_part import TreePart, tree_part
from runtime.frontends.web.adk.page.visit import recorded_requests, traced, visited
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import HttpError, NotFoundError

_log = logging.getLogger(__name__)

MAX_AGENTS = 1_000_000
MAX_LEVELS = 100
"""So deep the page's description of a tree is: JSON of a thousand levels is none that can be written or read."""


class DevPaths:
    """Graphs and traces. It keeps the trees of the apps, which stay the same as long as a deployment lives."""

    def __init__(self) -> None:
        self._trees: dict[str, AgentInfo] = {}
        self._reading = asyncio.Lock()

    def operations(self) -> list[HttpOperation]:
        """The paths, special ones before general ones."""
        app = "/dev/apps/{app}"
        event = f"{app}/users/{{user}}/sessions/{{session}}/events/{{event}}"
        return [
            HttpOperation("GET", f"{app}/build_graph", self.get_tree),
            HttpOperation("GET", f"{app}/build_graph_image", self.get_graphs),
            HttpOperation("GET", f"{app}/graph", self.get_graph),
            HttpOperation("GET", f"{event}/graph", self.get_event_graph),
            HttpOperation("GET", f"{app}/debug/trace/session/{{session}}", self.get_traces),
            *(HttpOperation("GET", f"{app}/{name}", _no_list) for name in ("eval_sets", "eval_results", "tests")),
            *(HttpOperation("GET", f"{app}/{name}", _no_entries) for name in ("eval-sets", "eval-results", "metrics-info")),
            HttpOperation("GET", f"{app}/builder", _no_text),
            HttpOperation("GET", "/config/telemetry", _no_telemetry),
            HttpOperation("GET", "/run_live", _no_calls),
        ]

    async def get_tree(self, call: Call) -> JsonObject:
        """Describe the agents that the page draws."""
        part = await self._part(call)
        levels = part.levels()
        made: dict[str, JsonObject] = {}
        for name, agent in reversed(part.agents.items()):
            made[name] = {
                "name": name,
                "description": agent.description,
                "instruction": "",
                "model": agent.model,
                "tools": [{"name": tool, "type": "tool"} for tool in part.tools.get(name, ())],
                "sub_agents": [made[child.name] for child in part.children(agent) if levels[child.name] < MAX_LEVELS],
            }
        root = made[part.root.name]
        # In the page's dialog, a click on one of these asks for the graph of what is below it.
        if cut := [{**made[name], "sub_agents": [{"name": "…"}]} for name in part.hidden if name != part.root.name]:
            root = {**root, "nodes": cut}
        return {"name": call.path("app"), "root_agent": root}

    async def get_graphs(self, call: Call) -> JsonObject:
        """Draw the agents; with `node`, a path of names, those below the last one."""
        query = call.request.query_params
        under = query.get("node", "").strip("/").rpartition("/")[2]
        graph = {"dotSrc": dot_of(await self._part(call, under), dark=query.get("dark_mode") == "true")}
        # The page's dialog reads the graph of a node from another place than that of the whole.
        return {"": graph, **graph} if under else {"": graph}

    async def get_graph(self, call: Call) -> JsonObject:
        """Draw the agents."""
        return {"dotSrc": dot_of(await self._part(call), dark=call.request.query_params.get("dark_mode") == "true")}

    async def get_event_graph(self, call: Call) -> JsonObject:
        """Draw the agents, with those that an event is about highlighted."""
        session = await call.runtime.aio.sessions.get(call.user_id, call.session_id)
        event = next((each for each in session.events if each.id == call.path("event")), None) if session is not None else None
        if event is None:
            return {}
        calls = {call.name for call in event.function_calls()} | {response.name for response in event.function_responses()}
        marked = {event.author, *(name for name in calls if name)}
        return {"dotSrc": dot_of(tree_part(await self._tree(call), [event.author]), dark=True, marked=marked)}

    async def get_traces(self, call: Call) -> list[JsonObject]:
        """Make traces of the log of a session."""
        session = await traced(call)
        if session is None:
            return []
        agents = {agent.name: agent for agent in await self._tree(call)}
        return spans_of(session, agents, await recorded_requests(call, session))

    async def _part(self, call: Call, under: str = "") -> TreePart:
        """The agents to draw: first those that spoke last in the session that the page shows."""
        root = await self._tree(call)
        if under:
            found = next((agent for agent in root if agent.name == under), None)
            if found is None:
                raise NotFoundError(f"app {call.path('app')!r} has no agent {under!r}")
            root = found
        session = await visited(call)
        authors = [event.author for event in reversed(session.events)] if session is not None else []
        return tree_part(root, dict.fromkeys(authors))

    async def _tree(self, call: Call) -> AgentInfo:
        runtime = call.runtime
        if runtime.app_name not in self._trees:
            # The page's first requests come at once: the first reads the tree, the others wait for it.
            async with self._reading:
                if runtime.app_name not in self._trees:
                    self._trees[runtime.app_name] = await runtime.aio.tree(limit=MAX_AGENTS)
        return self._trees[runtime.app_name]


async def _no_list(call: Call) -> list[JsonObject]:
    return []


async def _no_entries(call: Call) -> JsonObject:
    return {"evalSetIds": [], "evalResultIds": [], "metricsInfo": []}


async def _no_text(call: Call) -> Response:
    return PlainTextResponse("")


async def _no_calls(call: Call) -> JsonObject:
    """Refuse a call by voice or video. The page says only that the log of the server has the reason."""
    reason = "calls by voice and video are not served: write to the agent instead"
    _log.warning("the page of adk web asked for %s; %s", call.request.url.path, reason)
    raise HttpError(501, reason)


async def _no_telemetry(call: Call) -> JsonObject:
    return {"telemetry": False}
