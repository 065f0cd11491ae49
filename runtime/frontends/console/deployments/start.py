"""`raygrove start`: a deployment that goes on when the command has ended."""

from __future__ import annotations

from runtime.frontends.console.apps import options
from runtime.frontends.console.deployments.options import Address
from runtime.frontends.console.options import Json


def start(
    path: options.Path,
    app_name: options.AppName = None,
    store: options.Store = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Start an app on a Ray cluster, where it runs until `raygrove stop`."""
    from actors.errors import ClusterError, DeploymentExistsError
    from runtime.frontends.console.apps.opening import Where, open_app
    from runtime.frontends.console.joining import started
    from runtime.frontends.console.output import print_json

    try:
        with started(open_app(Where(path, app_name, store, address=address or "auto"), detached=True)) as rt:
            name, where, agents = rt.app_name, rt.address, 1 + rt.tree(limit=1).hidden
    except DeploymentExistsError as error:
        (name,) = error.args
        raise ClusterError(f"{name!r} runs already: `raygrove stop {name}` ends it, and --app-name gives another name") from error
    if json:
        print_json([{"name": name, "address": where, "agents": agents}])
    else:
        print(f"{name} runs on the Ray at {where}, with {agents} {'agents' if agents > 1 else 'agent'}")
