"""For those who operate the server: health, readiness, figures for Prometheus, and the description of the API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from runtime.frontends.web.operations.call import Call, json_response
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.prometheus import CONTENT_TYPE, exposition
from runtime.frontends.web.shedding import REFUSED_UNREAD


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the server is; `apps`: the apps that do not answer, and why."""

    status: str
    apps: dict[str, str] = {}


async def get_health(call: Call) -> Health:
    """Tell that the process lives."""
    return Health(status="ok")


async def get_readiness(call: Call) -> Response:
    """Tell whether the actors and the session store of every app answer within 2 s; 503 when they do not."""
    faults = await call.served.readiness.faults()
    return json_response(Health(status="not ready" if faults else "ready", apps=faults), 503 if faults else 200)


async def get_metrics(call: Call) -> Response:
    """Read the figures of all apps in the text format of Prometheus. For administrators."""
    call.principal.check_admin()
    figures = {name: await runtime.aio.statistics() for name, runtime in call.served.runtimes.items()}
    shedding = call.served.shedding
    unread = {(REFUSED_UNREAD, 503): shedding.refused, (REFUSED_UNREAD, 429): shedding.refused_at_limits}
    requests = {**call.served.requests, **unread}
    return Response(exposition(figures, requests, call.served.slots.open), media_type=CONTENT_TYPE)


OPERATIONS: Sequence[HttpOperation] = [
    HttpOperation("GET", "/healthz", get_health, gives=Health, is_open=True, users="none"),
    HttpOperation("GET", "/readyz", get_readiness, gives=Health, is_open=True, users="none"),
    HttpOperation("GET", "/metrics", get_metrics, gives_media=["text/plain"], users="none"),
]
"""What operators ask."""
