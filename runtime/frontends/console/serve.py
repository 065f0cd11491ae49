"""`raygrove serve` and `raygrove ui`: apps over HTTP, and the inspector of a deployment."""

from __future__ import annotations

import secrets
import tempfile
import webbrowser
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from runtime.frontends.console import options, runtimes
from runtime.frontends.loading.places import is_code

if TYPE_CHECKING:
    from runtime.driver.runtime import Runtime
    from runtime.frontends.web.auth import Auth

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Folders with agent.py, Python files, module:attribute; with --join names of apps.",
        show_default=False,
    ),
]
Host = Annotated[str, typer.Option(help="Where to listen. Other addresses than those of this machine need credentials.")]
Port = Annotated[int, typer.Option(help="The port; 0 has a free one chosen.", min=0, max=65535)]
Join = Annotated[bool, typer.Option("--join", help="Join deployments that run on Ray already.")]
Token = Annotated[str | None, typer.Option(help="The token that requests need, for the data of any user.")]
Tokens = Annotated[str | None, typer.Option(help='A JSON file with tokens: {"<token>": {"user_id": "ada"}}.')]
JwksUrl = Annotated[str | None, typer.Option(help="Where the issuer of JSON Web Tokens publishes its keys.")]
Issuer = Annotated[str | None, typer.Option(help="The issuer of JSON Web Tokens.")]
Audience = Annotated[str | None, typer.Option(help="The audience of JSON Web Tokens.")]
AllowedHost = Annotated[list[str] | None, typer.Option(help="A name under which clients reach the server. May be repeated.")]
AllowedOrigin = Annotated[list[str] | None, typer.Option(help="A site whose pages may use the server. May be repeated.")]
MaxConnections = Annotated[
    int | None, typer.Option(help="Connections that the server has at most; by default 4096, or half of the open files.", min=1)
]
HeadTimeout = Annotated[float, typer.Option(help="Seconds in which the head of a request has to come.", min=0.1)]
BodyTimeout = Annotated[float, typer.Option(help="Seconds that the body of a request may be silent.", min=0.1)]
BodyMemory = Annotated[int, typer.Option(help="MiB of memory for the bodies of all requests under way.", min=1)]
AdkWeb = Annotated[
    bool, typer.Option("--adk-web", help="Serve the page of `adk web`, too, from the google-adk that is installed.")
]
AdkUi = Annotated[
    str | None, typer.Option(help="A folder with the page of `adk web`: google/adk/cli/browser of an installation.")
]
NoUi = Annotated[bool, typer.Option("--no-ui", help="Serve no inspector, the page at /ui/.")]

UiPort = Annotated[int, typer.Option(help="The port; by default a free one is chosen.", min=0, max=65535)]
Open = Annotated[bool, typer.Option("--open", help="Open it in a browser, too.")]


def serve(
    paths: Paths,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    join: Join = False,
    token: Token = None,
    tokens: Tokens = None,
    jwks_url: JwksUrl = None,
    issuer: Issuer = None,
    audience: Audience = None,
    allowed_host: AllowedHost = None,
    allowed_origin: AllowedOrigin = None,
    max_connections: MaxConnections = None,
    head_timeout: HeadTimeout = 10.0,
    body_timeout: BodyTimeout = 20.0,
    body_memory: BodyMemory = 512,
    adk_web: AdkWeb = False,
    adk_ui: AdkUi = None,
    no_ui: NoUi = False,
    app_name: options.AppName = None,
    store: options.Store = None,
    ray: options.Ray = False,
    address: options.RunAddress = None,
) -> None:
    """Serve apps over HTTP, until Ctrl-C. It needs the extra `web`."""
    from actors.errors import DefinitionError, RequestError
    from runtime.driver.runtime import Runtime
    from runtime.engine.process.collector import look_less_often

    if len(paths) > 1 and app_name is not None:
        raise RequestError("--app-name names one app, and there are several paths")
    if join and (store or ray or app_name is not None):
        raise RequestError(
            "--join takes names of apps that run, with the stores and options that they have: only --address goes with it"
        )
    try:
        from runtime.frontends.web.app import MAX_BODY_BYTES, app_for
        from runtime.frontends.web.bodies import MIB, BodyLimits
        from runtime.frontends.web.connections import ConnectionLimits
        from runtime.frontends.web.serving import WebServer
    except ModuleNotFoundError as error:
        raise DefinitionError(f"raygrove serve needs {error.name}: pip install 'raygrove[web]'") from error

    auth = _auth(token, tokens, jwks_url, issuer, audience)
    records = adk_web or adk_ui is not None
    apps = [
        Runtime.connect(path, address=address)
        if join
        else _opened(runtimes.Where(path, app_name, store, ray, address, records=records))
        for path in paths
    ]
    application = app_for(
        *apps,
        auth=auth,
        allowed_hosts=allowed_host,
        allowed_origins=allowed_origin or (),
        body_limits=BodyLimits(MAX_BODY_BYTES, max_total_bytes=body_memory * MIB, timeout_s=body_timeout),
        adk_web=adk_ui if adk_ui is not None else adk_web,
        inspector=not no_ui,
    )
    names = ", ".join(runtime.app_name for runtime in apps)

    def tell(url: str) -> None:
        inspector = "" if no_ui else f"  {url}/ui/ shows in a browser what agents do.\n"
        print(f"{names} at {url}\n\n{_example(url, apps[0].app_name, inspector, needs_token=auth is not None)}", flush=True)

    # Before anything is started: it checks that the address may be used.
    limits = ConnectionLimits(max_connections=max_connections, head_timeout_s=head_timeout)
    server = WebServer(application, host, port, on_ready=tell, limits=limits)
    server.check_port()
    with ExitStack() as started:
        for runtime in apps:
            started.enter_context(runtime)
        look_less_often()
        server.run()


def _example(url: str, app_name: str, inspector: str, *, needs_token: bool) -> str:
    """A command line that runs a turn, and where the description of the API is."""
    token = "-H 'Authorization: Bearer <token>' " if needs_token else ""
    turns = f"{url}/v1/apps/{app_name}/sessions/s1/turns?user=ada"
    kinds = "-H 'Content-Type: application/json' -H 'Accept: text/event-stream'"
    curl = f"""curl -sN '{turns}' {token}{kinds} -d '{{"message": "Hello!"}}'"""
    return f"  {curl}\n{inspector}  {url}/openapi.json describes the API; Ctrl-C ends it."


def _auth(token: str | None, tokens: str | None, jwks_url: str | None, issuer: str | None, audience: str | None) -> Auth | None:
    """The check of requests; None for a server that only this machine reaches. Raises RequestError, DefinitionError."""
    from actors.errors import RequestError
    from runtime.frontends.web.auth import Principal, StaticTokens
    from runtime.frontends.web.jwt_auth import JwtAuth

    given = [each is not None for each in (token, tokens, jwks_url)]
    if sum(given) > 1:
        raise RequestError("give one of --token, --tokens and --jwks-url")
    of_web_tokens = (jwks_url, issuer, audience)
    if any(of_web_tokens) and not all(of_web_tokens):
        raise RequestError("--jwks-url, --issuer and --audience go together")
    if token is not None:
        return StaticTokens({token: Principal(is_admin=True)})
    if tokens is not None:
        return StaticTokens.from_file(tokens)
    if issuer is not None and audience is not None:
        return JwtAuth(issuer=issuer, audience=audience, jwks_url=jwks_url)
    return None


def _opened(where: runtimes.Where) -> Runtime:
    """The deployment that lives under a folder's name, or the code."""
    return runtimes.open_named(where) if is_code(where.path) else runtimes.open_app(where)


def ui(name: options.Name, port: UiPort = 0, open_it: Open = False, address: options.Address = None) -> None:
    """Serve the inspector of a deployment, until Ctrl-C, and print where it is. It needs the extra `web`.

    The address has a token in it, without which the server says nothing: it lets who has it do everything.
    """
    from actors.errors import DefinitionError

    try:
        from runtime.frontends.web.app import app_for
        from runtime.frontends.web.auth import Principal, StaticTokens
        from runtime.frontends.web.serving import WebServer
    except ModuleNotFoundError as error:
        raise DefinitionError(f"raygrove ui needs {error.name}: pip install 'raygrove[web]'") from error

    token = secrets.token_urlsafe()

    with runtimes.joined(name, address) as rt, tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as leading:

        def tell(url: str) -> None:
            # Browsers send no server what is behind the #.
            place = f"{url}/ui/?app={quote(name, safe='')}#token={token}"
            print(f"{name} at {place}", flush=True)
            if open_it:
                # Other users of the machine see the arguments of a browser, and cannot read this file.
                leading.write(f'<meta http-equiv="refresh" content="0; url={escape(place)}">')
                leading.flush()
                webbrowser.open(Path(leading.name).as_uri())

        auth = StaticTokens({token: Principal(is_admin=True)})
        WebServer(app_for(rt, auth=auth, adk_paths=False), "127.0.0.1", port, on_ready=tell).run()
