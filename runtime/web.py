"""Apps over HTTP: `app_for(rt, auth=…)` is a web application for any ASGI server, as `WebServer` is. Install `raygrove[web]`."""

from runtime.frontends.web.app import app_for
from runtime.frontends.web.auth.jwt import JwtAuth
from runtime.frontends.web.auth.loopback import LoopbackOnly
from runtime.frontends.web.auth.principal import Auth, Principal
from runtime.frontends.web.auth.tokens import StaticTokens
from runtime.frontends.web.bodies import BodyLimits
from runtime.frontends.web.connections import ConnectionLimits
from runtime.frontends.web.problems import NotAllowedError, NotAuthenticatedError
from runtime.frontends.web.serving import WebServer

__all__ = [
    "Auth",
    "BodyLimits",
    "ConnectionLimits",
    "JwtAuth",
    "LoopbackOnly",
    "NotAllowedError",
    "NotAuthenticatedError",
    "Principal",
    "StaticTokens",
    "WebServer",
    "app_for",
]
