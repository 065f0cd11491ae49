"""The page at `/`: what a person finds who opens the address of a server in a browser, and the same as JSON for programs."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from starlette.responses import HTMLResponse, Response

from runtime.frontends.web.operations.call import Call, json_response
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import HttpError

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


async def get_index(call: Call) -> Response:
    """Say what is here: as a page for browsers, else as JSON. Only clients that may use the apps see their names."""
    root = call.request.scope.get("root_path", "")
    links = {
        "openapi": (f"{root}/openapi.json", "the description of the API"),
        "health": (f"{root}/healthz", "whether the server lives"),
        "readiness": (f"{root}/readyz", "whether its apps answer"),
    }
    apps = await _apps(call)
    if "text/html" in call.request.headers.get("accept", ""):
        return HTMLResponse(_page(apps, list(links.values())), headers=_HEADERS)
    places = {name: place for name, (place, _) in links.items()}
    return json_response({"service": "raygrove", "apps": apps, "links": places}, headers=_HEADERS)


async def _apps(call: Call) -> Sequence[str]:
    try:
        await call.served.auth(call.request)
    except HttpError:
        return []
    return list(call.served.runtimes)


INDEX = HttpOperation("GET", "/", get_index, is_open=True, users="none")
"""What a server has at its address, where the page of `adk web` is not served."""


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
