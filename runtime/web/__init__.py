"""Apps over HTTP: `app_for(rt, auth=…)` is a web application for any ASGI server. Install `raygrove[web]` for it."""

from runtime.web.app import app_for
from runtime.web.auth.jwt import JwtAuth
from runtime.web.auth.loopback import LoopbackOnly
from runtime.web.auth.principal import Auth, Principal
from runtime.web.auth.tokens import StaticTokens
from runtime.web.problems import NotAllowedError, NotAuthenticatedError

__all__ = ["Auth", "JwtAuth", "LoopbackOnly", "NotAllowedError", "NotAuthenticatedError", "Principal", "StaticTokens", "app_for"]
