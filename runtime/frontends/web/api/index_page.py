"""What is at `/`: in a browser the inspector, or a page that says what is here; and the same as JSON for programs."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from starlette.responses import HTMLResponse, RedirectResponse, Response

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
