"""`raygrove ui`: the inspector of a deployment that runs, for who is at this machine."""

from __future__ import annotations

import secrets
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from runtime.frontends.console.completion import complete_deployment

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of a deployment that runs.", show_default=False, autocompletion=complete_deployment
    ),
]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster; by default the one on this machine.")]
Port = Annotated[int, typer.Option(help="The port; by default a free one is chosen.", min=0, max=65535)]
Open = Annotated[bool, typer.Option("--open", help="Open it in a browser, too.")]


def ui(name: Name, port: Port = 0, open_it: Open = False, address: Address = None) -> None:
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
    from runtime.frontends.console.joining import joined

    token = secrets.token_urlsafe()

    with joined(name, address) as rt, tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as leading:

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
