"""The web application."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from actors.errors import DefinitionError, RaygroveError
from actors.messages.config import DEFAULT_LIMITS
from runtime.driver.arguments import RunOptions, run_config_of
from runtime.driver.runtime import Runtime
from runtime.driver.services import services
from runtime.frontends.web.adk import api as adk_api
from runtime.frontends.web.adk.page import DevPaths, PageFiles
from runtime.frontends.web.api import agents, artifacts, bulk, schedules, server, sessions, turns
from runtime.frontends.web.auth import LOOPBACK_NAMES, Auth, LoopbackOnly
from runtime.frontends.web.bodies import Bodies, BodyLimits
from runtime.frontends.web.call import Served
from runtime.frontends.web.guard import Guard
from runtime.frontends.web.openapi import describing
from runtime.frontends.web.operation import HttpOperation, http_operation, routes
from runtime.frontends.web.problems import HttpError, problem_response
from runtime.frontends.web.shedding import UnreadRefused
from runtime.frontends.web.streams import KEEP_ALIVE_S, StreamSlots
from runtime.frontends.web.ui.page import InspectorPage

MAX_BODY_BYTES = 2 * DEFAULT_LIMITS.max_message_bytes
"""How large the body of a request may be: base64 makes a message longer by a third."""

_MODULES = (server, agents, sessions, turns, bulk, schedules, artifacts)

OPERATIONS = [
    *(each for module in _MODULES for each in module.OPERATIONS),
    *map(http_operation, services.OPERATIONS),
]
"""All that clients can do."""

ADK_OPERATIONS = adk_api.OPERATIONS
"""The same under ADK's paths. They are described by ADK."""


def app_for(
    *runtimes: Runtime,
    auth: Auth | None = None,
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] = (),
    run_config: RunOptions | None = None,
    adk_paths: bool = True,
    adk_web: bool | str | os.PathLike[str] = False,
    inspector: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_limits: BodyLimits | None = None,
    max_streams: int = 1_000,
    max_streams_per_user: int = 64,
    keep_alive_s: float = KEEP_ALIVE_S,
) -> Starlette:
    """A web application that serves apps, and that can be mounted in another one.

    Args:
        runtimes: of the apps. They have to be started before the first request; the application does not close them.
        auth: says on whose behalf each request comes; None serves programs of the same machine only, which may do everything.
        allowed_hosts: the names under which clients reach the server, without ports; None: any, but with `auth=None` only
            those of the same machine.
        allowed_origins: the sites whose pages may use the server, such as `https://desk.example.com`, besides its own.
        run_config: options of turns that clients leave out. Clients bound to a user may lower its limits, and not raise them.
        adk_paths: serve the paths of ADK's own server, too: `/run_sse`, `/apps/…` and others.
        adk_web: serve the page of `adk web` at `/dev-ui/`, from the google-adk that is installed, or from a folder with its
            files. The page sends no credentials, so it goes with `auth=None` only.
        inspector: serve the inspector, too, at `/ui/`.
        max_body_bytes: how large the body of a request may be.
        body_limits: that, how long bodies may take to come, and how much memory all of them may take; in place of the former.
        max_streams: how many streams may be open at once, and requests that wait for the end of a turn.
        max_streams_per_user: the same for one user.
        keep_alive_s: after so many seconds without an event a stream sends a comment.

    Returns:
        The application. `app.state.slots.close()` ends its streams when the server stops.

    Raises:
        DefinitionError: there is no Runtime, or two are of the same app; the page of ADK is wanted where it cannot be served.
    """
    auth = auth if auth is not None else LoopbackOnly()
    needs_credentials = not isinstance(auth, LoopbackOnly)
    if allowed_hosts is None and not needs_credentials:
        allowed_hosts = LOOPBACK_NAMES
    slots = StreamSlots(max_streams_per_user, max_streams)
    bodies = Bodies(body_limits or BodyLimits(max_body_bytes))
    served = Served(runtimes, auth, slots, run_config=run_config_of(run_config), bodies=bodies, keep_alive_s=keep_alive_s)
    described = describing(OPERATIONS, list(served.runtimes), needs_credentials=needs_credentials)
    others = list(ADK_OPERATIONS) if adk_paths else []
    if inspector:
        others += InspectorPage().operations()
    if adk_web is not False:
        others += _page_operations(adk_web, has_paths=adk_paths, needs_credentials=needs_credentials)
    else:
        others.append(server.index_of(has_page=inspector))

    @asynccontextmanager
    async def looking(app: Starlette) -> AsyncIterator[None]:
        served.recent.start()
        yield
        served.recent.stop()

    app = Starlette(
        routes=routes([*OPERATIONS, described, *others], served),
        middleware=[
            Middleware(Guard, hosts=allowed_hosts, origins=allowed_origins),
            Middleware(UnreadRefused, shedding=served.shedding),
        ],
        exception_handlers={
            RaygroveError: problem_response,
            HttpError: problem_response,
            HTTPException: problem_response,
            Exception: problem_response,
        },
        lifespan=looking,
    )
    app.state.slots = slots
    app.state.shedding = served.shedding
    app.state.needs_credentials = needs_credentials
    return app


def _page_operations(adk_web: bool | str | os.PathLike[str], *, has_paths: bool, needs_credentials: bool) -> list[HttpOperation]:
    if needs_credentials:
        raise DefinitionError("the page of ADK sends no credentials: adk_web goes with auth=None, which serves this machine only")
    if not has_paths:
        raise DefinitionError("the page of ADK asks for ADK's paths: adk_web goes with adk_paths=True")
    files = PageFiles(None if isinstance(adk_web, bool) else adk_web)
    return [*files.operations(), *DevPaths().operations()]
