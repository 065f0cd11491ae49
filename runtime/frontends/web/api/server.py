"""The server itself: its address `/`, health, readiness and figures, and what the credentials of a request allow."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

import msgspec
from starlette.responses import HTMLResponse, RedirectResponse, Response

from runtime.frontends.web.auth import LoopbackOnly, Principal
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.monitoring import CONTENT_TYPE, exposition
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import HttpError, NotAuthenticatedError
from runtime.frontends.web.shedding import REFUSED_UNREAD

_STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}code{font-size:.95em}"

_HEADERS: Mapping[str, str] = {
    # No script, no form, no frame, and no style but the one above.
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept",
}


def index_of(*, has_page: bool) -> HttpOperation:
    """Make the operation at the address of a server, where the page of `adk web` is not; with `has_page` browsers are led on."""

    async def get_index(call: Call) -> Response:
        """Say what is here: to browsers by a page, else as JSON. Only clients that may use the apps see their names."""
        root = call.request.scope.get("root_path", "")
        is_browser = "text/html" in call.request.headers.get("accept", "")
        if is_browser and has_page:
            return RedirectResponse(f"{root}/ui/", headers={"Vary": "Accept"})
        links = {
            "openapi": (f"{root}/openapi.json", "the description of the API"),
            "health": (f"{root}/healthz", "whether the server lives"),
            "readiness": (f"{root}/readyz", "whether its apps answer"),
        }
        apps = await _apps(call)
        if is_browser:
            return HTMLResponse(_page(apps, list(links.values())), headers=_HEADERS)
        places = {name: place for name, (place, _) in links.items()} | ({"inspector": f"{root}/ui/"} if has_page else {})
        return json_response({"service": "raygrove", "apps": apps, "links": places}, headers=_HEADERS)

    return HttpOperation("GET", "/", get_index, is_open=True, users="none")


async def _apps(call: Call) -> Sequence[str]:
    try:
        await call.served.auth(call.request)
    except HttpError:
        return []
    return list(call.served.runtimes)


def _page(apps: Sequence[str], links: Sequence[tuple[str, str]]) -> str:
    served = f"<p>It serves {', '.join(f'<code>{escape(app)}</code>' for app in apps)}.</p>" if apps else ""
    items = "".join(f'<li><a href="{escape(place)}">{escape(place)}</a>: {escape(says)}</li>' for place, says in links)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>raygrove</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><h1>raygrove</h1>'
        f"<p>This is a server of agents, for programs.</p>{served}<ul>{items}</ul>"
        "<p>The page <code>docs/service.md</code> of raygrove says how to use it, and <code>raygrove chat</code> talks to an app "
        "in a terminal.</p></body></html>"
    )


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


class Me(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the credentials of a request allow.

    Attributes:
        is_known: the server takes them. Without that they allow nothing.
        needs_credentials: without any the server takes no requests.
        user_id: the only user whose data they reach; null: those of any user.
        is_admin: they are an administrator's.
    """

    is_known: bool
    needs_credentials: bool
    user_id: str | None = None
    is_admin: bool = False


async def get_me(call: Call) -> Me:
    """Read what the credentials of this request allow. A client learns so that it has to ask for a token."""
    needs_credentials = not isinstance(call.served.auth, LoopbackOnly)
    try:
        who: Principal = await call.served.auth(call.request)
    except NotAuthenticatedError:
        return Me(is_known=False, needs_credentials=needs_credentials)
    return Me(is_known=True, needs_credentials=needs_credentials, user_id=who.user_id, is_admin=who.is_admin)


OPERATIONS: Sequence[HttpOperation] = [
    HttpOperation("GET", "/healthz", get_health, gives=Health, is_open=True, users="none"),
    HttpOperation("GET", "/readyz", get_readiness, gives=Health, is_open=True, users="none"),
    HttpOperation("GET", "/metrics", get_metrics, gives_media=["text/plain"], users="none"),
    HttpOperation("GET", "/v1/me", get_me, gives=Me, is_open=True, users="none"),
]
"""What is asked of the server itself."""
