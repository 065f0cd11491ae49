"""`raygrove stop`: ends a deployment for all programs."""

from __future__ import annotations

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json


def stop(name: Name, address: Address = None, json: Json = False) -> None:
    """Stop a deployment for good. Turns that run are cancelled; what is stored stays."""
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.output import print_json

    with joined(name, address) as rt:
        rt.shutdown()
    if json:
        print_json([{"name": name, "stopped": True}])
    else:
        print(f"{name} has stopped")
