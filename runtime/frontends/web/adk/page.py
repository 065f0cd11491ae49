"""ADK's page: its files, and the paths below `/dev`, which only it asks for: graphs and traces. Lists of evaluations are empty.

Some of its requests do not say which session it shows, but the page's own address does, in the header `Referer`. The files are
served from where google-adk is installed, which is not imported for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from actors.errors import DefinitionError, InvocationNotFoundError, RequestError
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest
from actors.messages.session import Session
from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.spans import spans_of
from runtime.frontends.web.adk.tree_graphs import TreePart, dot_of, tree_part
from runtime.frontends.web.call import Call
from runtime.frontends.web.operation import HttpOperation
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


_IN_PACKAGE = "cli/browser"
_HASHED = re.compile(r"-[A-Z0-9]{8}\.(js|css)$")


class PageFiles:
    """The page's files.

    Args:
        folder: where they are; None: in the google-adk that is installed.

    Raises:
        DefinitionError: there is no page.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        found = Path(folder) if folder is not None else _installed()
        if not (found / "index.html").is_file():
            raise DefinitionError(
                f"there is no page of ADK in {str(found)!r}: name the folder google/adk/{_IN_PACKAGE} of an installed google-adk"
            )
        # Some installers link files to their cache.
        self._files = StaticFiles(directory=found, html=True, follow_symlink=True)

    def operations(self) -> list[HttpOperation]:
        """The paths of the files, special ones before general ones."""
        return [
            HttpOperation("GET", "/", self.open_page),
            HttpOperation("GET", "/dev-ui", self.open_page),
            HttpOperation("GET", "/dev-ui/assets/config/runtime-config.json", self.get_config),
            HttpOperation("GET", "/dev-ui/config", self.get_logo),
            HttpOperation("GET", "/dev-ui/{path:path}", self.get_file),
        ]

    async def open_page(self, call: Call) -> Response:
        """Lead to the page."""
        return RedirectResponse(f"{_prefix(call)}/dev-ui/")

    async def get_config(self, call: Call) -> JsonObject:
        """Say where the service is, and that the page need not ask whether it may report its use."""
        return {"backendUrl": _prefix(call), "telemetry": False}

    async def get_logo(self, call: Call) -> JsonObject:
        """Say that the page has ADK's logo."""
        return {"logo_text": None, "logo_image_url": None}

    async def get_file(self, call: Call) -> Response:
        """Read a file."""
        path = call.path("path")
        if "\0" in path:
            raise NotFoundError("no file of the page has such a name")
        try:
            response = await self._files.get_response(self._files.get_path({"path": path}), call.request.scope)
        except HTTPException as error:
            raise NotFoundError(f"the page has no file {path!r}") from error
        # What changes has another name then, or is asked for again each time, and sent again when it has changed.
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable" if _HASHED.search(path) else "no-cache"
        return response


def _installed() -> Path:
    try:
        spec = find_spec("google.adk")
    except ModuleNotFoundError:
        spec = None
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise DefinitionError(
            "google-adk is not installed, and the page of `adk web` is a part of it: pip install 'raygrove[adk]', or name the "
            f"folder google/adk/{_IN_PACKAGE} of an installation elsewhere with --adk-ui"
        )
    return Path(places[0]) / _IN_PACKAGE


def _prefix(call: Call) -> str:
    """Where the application is mounted."""
    return str(call.request.scope.get("root_path", ""))


SPEAKING = 100
"""In so many of a session's newest events graphs look for agents that have spoken."""

TRACED = 1_000
"""So many of a session's newest events are traced."""

WITH_REQUESTS = 20
"""Of so many of a session's newest turns traces have what models were asked."""


async def visited(call: Call, newest: int = SPEAKING) -> Session | None:
    """The session that the page shows, with its newest events; None when it shows none yet."""
    query = parse_qs(urlsplit(call.request.headers.get("referer", "")).query)
    [app], [user], [session] = (query.get(name, [""])[-1:] for name in ("app", "userId", "session"))
    if app != call.path("app") or not user or not session:
        return None
    try:
        return await _read(call, user, session, newest)
    except RequestError:
        # The address may name anything.
        return None


async def traced(call: Call) -> Session | None:
    """The session in the path, which names no user; None when there is none."""
    found = await visited(call, TRACED)
    if found is not None and found.id == call.session_id:
        return found
    for each in await call.runtime.aio.sessions.list():
        if each.id == call.session_id:
            return await _read(call, each.user_id, each.id, TRACED)
    return None


async def recorded_requests(call: Call, session: Session) -> dict[str, LlmRequest]:
    """Read what models were asked in the newest turns of a session, by the ids of the events that have their answers.

    For operators; none for others, and of turns that were not recorded.
    """
    if not call.principal.is_admin:
        return {}
    turns = list(dict.fromkeys(event.invocation_id for event in reversed(session.events)))[:WITH_REQUESTS]
    found: dict[str, LlmRequest] = {}
    for invocation_id in turns:
        # A turn may have no record: one of an imported conversation, or an event beside all turns.
        with suppress(InvocationNotFoundError):
            recorded = await call.runtime.aio.turns.requests(session.user_id, session.id, invocation_id)
            found.update((each.event_id, each.request) for each in recorded if each.request is not None)
    return found


async def _read(call: Call, user_id: str, session_id: str, newest: int) -> Session | None:
    return await call.runtime.aio.sessions.get(call.principal.check_user(user_id), session_id, num_recent_events=newest)
