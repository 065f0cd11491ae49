"""The files of ADK's page. They are served from where google-adk is installed, which is not imported for it."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from actors.errors import DefinitionError
from actors.messages.json_types import JsonObject
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation
from runtime.frontends.web.problems import NotFoundError

_IN_PACKAGE = "cli/browser"
_HASHED = re.compile(r"-[A-Z0-9]{8}\.(js|css)$")


class PageFiles:
    """The page's files.

    Args:
        folder: where they are; None: in the google-adk that is installed.

    Raises:
        DefinitionError: there is no page.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        found = Path(folder) if folder is not None else _installed()
        if not (found / "index.html").is_file():
            raise DefinitionError(
                f"there is no page of ADK in {str(found)!r}: name the folder google/adk/{_IN_PACKAGE} of an installed google-adk"
            )
        # Some installers link files to their cache.
        self._files = StaticFiles(directory=found, html=True, follow_symlink=True)

    def operations(self) -> list[HttpOperation]:
        """The paths of the files, special ones before general ones."""
        return [
            HttpOperation("GET", "/", self.open_page),
            HttpOperation("GET", "/dev-ui", self.open_page),
            HttpOperation("GET", "/dev-ui/assets/config/runtime-config.json", self.get_config),
            HttpOperation("GET", "/dev-ui/config", self.get_logo),
            HttpOperation("GET", "/dev-ui/{path:path}", self.get_file),
        ]

    async def open_page(self, call: Call) -> Response:
        """Lead to the page."""
        return RedirectResponse(f"{_prefix(call)}/dev-ui/")

    async def get_config(self, call: Call) -> JsonObject:
        """Say where the service is, and that the page need not ask whether it may report its use."""
        return {"backendUrl": _prefix(call), "telemetry": False}

    async def get_logo(self, call: Call) -> JsonObject:
        """Say that the page has ADK's logo."""
        return {"logo_text": None, "logo_image_url": None}

    async def get_file(self, call: Call) -> Response:
        """Read a file."""
        path = call.path("path")
        if "\0" in path:
            raise NotFoundError("no file of the page has such a name")
        try:
            response = await self._files.get_response(self._files.get_path({"path": path}), call.request.scope)
        except HTTPException as error:
            raise NotFoundError(f"the page has no file {path!r}") from error
        # What changes has another name then, or is asked for again each time, and sent again when it has changed.
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable" if _HASHED.search(path) else "no-cache"
        return response


def _installed() -> Path:
    try:
        spec = find_spec("google.adk")
    except ModuleNotFoundError:
        spec = None
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise DefinitionError(
            "google-adk is not installed, and the page of `adk web` is a part of it: pip install 'raygrove[adk]', or name the "
            f"folder google/adk/{_IN_PACKAGE} of an installation elsewhere with --adk-ui"
        )
    return Path(places[0]) / _IN_PACKAGE


def _prefix(call: Call) -> str:
    """Where the application is mounted."""
    return str(call.request.scope.get("root_path", ""))
