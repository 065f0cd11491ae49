"""Apps over HTTP: `app_for(rt, auth=…)` is a web application for any ASGI server, as `WebServer` is. Install `raygrove[web]`."""

from runtime.web import *  # noqa: F403
from runtime.web import __all__ as __all__
