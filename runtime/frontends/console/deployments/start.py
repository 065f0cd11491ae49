"""`raygrove start`: a deployment that goes on when the command has ended."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime.frontends.console.apps import options
from runtime.frontends.console.deployments.options import Address
from runtime.frontends.console.options import Json

Resume = Annotated[bool, typer.Option("--resume", help="Go on with the turns that an earlier deployment has left open.")]


def start(
    path: options.Path,
    app_name: options.AppName = None,
    store: options.Store = None,
    resume: Resume = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Start an app on a Ray cluster, where it runs until `raygrove stop`."""
    from actors.errors import ClusterError, DeploymentExistsError
    from runtime.cluster.notices import tell_source
    from runtime.driver.services.deployment import current_version
    from runtime.frontends.console.apps.opening import Where, open_app
    from runtime.frontends.console.joining import started
    from runtime.frontends.console.output import print_json
    from runtime.settings import Settings

    try:
        with started(open_app(Where(path, app_name, store, address=address or "auto"), detached=True)) as rt:
            name, where, agents = rt.app_name, rt.address, 1 + rt.tree(limit=1).hidden
            resumed = rt.turns.resume() if resume else 0
            tell_source(Settings().namespace, name, path, current_version(rt), store)
    except DeploymentExistsError as error:
        (name,) = error.args
        raise ClusterError(f"{name!r} runs already: `raygrove stop {name}` ends it, and --app-name gives another name") from error
    if json:
        print_json([{"name": name, "address": where, "agents": agents, "resumed": resumed}])
        return
    print(f"{name} runs on the Ray at {where}, with {agents} {'agents' if agents > 1 else 'agent'}")
    if resume:
        print(f"{resumed} open {'turn goes' if resumed == 1 else 'turns go'} on")
