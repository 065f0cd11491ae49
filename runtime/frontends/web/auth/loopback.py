"""No credentials: for a server that only programs of the same machine reach."""

from __future__ import annotations

from ipaddress import ip_address

from starlette.requests import Request

from runtime.frontends.web.auth.principal import Principal
from runtime.frontends.web.problems import NotAllowedError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""The names in a `Host` header under which programs of the same machine reach it."""

_EVERYTHING = Principal(is_admin=True)


class LoopbackOnly:
    """Lets requests from the same machine do everything, and refuses all others."""

    async def __call__(self, request: Request) -> Principal:
        """The principal, which may do everything. Raises NotAllowedError when the request comes from another machine."""
        # A Unix socket has no client.
        if request.client is not None and not is_loopback(request.client.host):
            raise NotAllowedError("this server has no credentials to check, so it serves only the machine that it runs on")
        return _EVERYTHING


def is_loopback(host: str) -> bool:
    """True for an address, or a name, that only the same machine can reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
