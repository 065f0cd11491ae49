"""Apps over HTTP: `app_for(rt, auth=…)` is a web application for any ASGI server. Install `raygrove[web]` for it."""

from runtime.frontends.web.app import app_for
from runtime.frontends.web.auth.jwt import JwtAuth
from runtime.frontends.web.auth.loopback import LoopbackOnly
from runtime.frontends.web.auth.principal import Auth, Principal
from runtime.frontends.web.auth.tokens import StaticTokens
from runtime.frontends.web.problems import NotAllowedError, NotAuthenticatedError

__all__ = ["Auth", "JwtAuth", "LoopbackOnly", "NotAllowedError", "NotAuthenticatedError", "Principal", "StaticTokens", "app_for"]
