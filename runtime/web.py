"""Apps over HTTP: `app_for(rt, auth=…)` is a web application for any ASGI server, as `WebServer` is. Install `raygrove[web]`."""

from runtime.frontends.web.app import app_for
from runtime.frontends.web.auth import Auth, LoopbackOnly, Principal, StaticTokens
from runtime.frontends.web.bodies import BodyLimits
from runtime.frontends.web.connections import ConnectionLimits
from runtime.frontends.web.jwt_auth import JwtAuth
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
