"""`raygrove chat`: a conversation with an app on a terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from runtime.frontends.console.apps import options

Session = Annotated[str | None, typer.Option(help="Go on with this conversation; by default a new one begins.")]


def chat(
    app: options.App,
    session: Session = None,
    user: options.User = "user",
    app_name: options.AppName = None,
    store: options.Store = None,
    state: options.State = None,
    timeout: options.Timeout = None,
    ray: options.Ray = False,
    address: options.Address = None,
) -> None:
    """Talk with an app, also while it works. /help lists the commands, Esc or Ctrl-C cancels a turn, Ctrl-D leaves."""
    given = options.state_of(state or [])

    from actors.messages.config import RunConfig
    from runtime.frontends.console.apps.conversation import Conversation, new_session
    from runtime.frontends.console.apps.opening import Where, open_named

    if sys.stdin.isatty():
        import readline  # noqa: F401  input() uses it: earlier lines, and editing.
    with open_named(Where(app, app_name, store, ray, address)) as rt:
        config = RunConfig(streaming="sse", timeout=timeout)
        Conversation(rt, user=user, session=session or new_session(), state=given, config=config).talk()
