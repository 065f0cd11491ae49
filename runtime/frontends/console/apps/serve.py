"""`raygrove serve`: apps over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.apps import options

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
    address: options.Address = None,
) -> None:
    """Serve apps over HTTP, until Ctrl-C. It needs the extra `web`."""
    from actors.errors import DefinitionError, RequestError
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

    auth = Credentials(token, tokens, jwks_url, issuer, audience).auth()
    runtimes = [
        _joined(path, address) if join else _opened(path, app_name, store, ray, address, records=adk_web or adk_ui is not None)
        for path in paths
    ]
    application = app_for(
        *runtimes,
        auth=auth,
        allowed_hosts=allowed_host,
        allowed_origins=allowed_origin or (),
        body_limits=BodyLimits(MAX_BODY_BYTES, max_total_bytes=body_memory * MIB, timeout_s=body_timeout),
        adk_web=adk_ui if adk_ui is not None else adk_web,
        inspector=not no_ui,
    )
    names = ", ".join(runtime.app_name for runtime in runtimes)

    def tell(url: str) -> None:
        inspector = "" if no_ui else f"  {url}/ui/ shows in a browser what agents do.\n"
        print(f"{names} at {url}\n\n{_example(url, runtimes[0].app_name, inspector, needs_token=auth is not None)}", flush=True)

    # Before anything is started: it checks that the address may be used.
    limits = ConnectionLimits(max_connections=max_connections, head_timeout_s=head_timeout)
    server = WebServer(application, host, port, on_ready=tell, limits=limits)
    server.check_port()
    with ExitStack() as started:
        for runtime in runtimes:
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


@dataclass(frozen=True)
class Credentials:
    """The options that say which requests are served.

    Attributes:
        token: of all requests.
        tokens: a file.
        jwks_url, issuer, audience: of JSON Web Tokens.
    """

    token: str | None
    tokens: str | None
    jwks_url: str | None
    issuer: str | None
    audience: str | None

    def auth(self) -> Auth | None:
        """The check of requests; None for a server that only this machine reaches. Raises RequestError, DefinitionError."""
        from actors.errors import RequestError
        from runtime.frontends.web.auth import Principal, StaticTokens
        from runtime.frontends.web.jwt_auth import JwtAuth

        given = [each is not None for each in (self.token, self.tokens, self.jwks_url)]
        if sum(given) > 1:
            raise RequestError("give one of --token, --tokens and --jwks-url")
        of_web_tokens = (self.jwks_url, self.issuer, self.audience)
        if any(of_web_tokens) and not all(of_web_tokens):
            raise RequestError("--jwks-url, --issuer and --audience go together")
        if self.token is not None:
            return StaticTokens({self.token: Principal(is_admin=True)})
        if self.tokens is not None:
            return StaticTokens.from_file(self.tokens)
        if self.issuer is not None and self.audience is not None:
            return JwtAuth(issuer=self.issuer, audience=self.audience, jwks_url=self.jwks_url)
        return None


def _opened(
    path: str, app_name: str | None, store: Sequence[str] | None, ray: bool, address: str | None, *, records: bool
) -> Runtime:
    from runtime.frontends.console.apps.opening import Where, deployment_of, open_app
    from runtime.frontends.loading.places import is_code

    where = Where(path, app_name, store, ray, address, records)
    return (deployment_of(where) if is_code(path) else None) or open_app(where)


def _joined(app_name: str, address: str | None) -> Runtime:
    from runtime.driver.runtime import Runtime

    return Runtime.connect(app_name, address=address)
