"""Imports the module of an app."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from actors.errors import DefinitionError, RequestError
from actors.errors.tracebacks import foreign_traceback, with_traceback
from actors.errors.user_code import code_of, error_text
from runtime.frontends.loading.places import Place


def import_place(place: Place) -> tuple[ModuleType, bool]:
    """Import the module of a place; its folder becomes the first one on `sys.path`.

    Returns:
        The module, and whether other processes can import it by its name when they have the folder on their path.

    Raises:
        RequestError: there is no such module, or another one hides it.
        DefinitionError: importing it failed. The error has the traceback of the app's code.
    """
    folder = str(place.folder)
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    top = place.module.partition(".")[0]
    found = _spec(top)
    if place.file is None:
        if found is None:
            raise RequestError(f"there is no module {top!r} in {place.folder}, nor on the path of Python")
    elif not _leads_to(found, place.file):
        if place.file.is_dir():
            other = found.origin if found is not None else None
            raise RequestError(
                f"the folder {place.given!r} cannot be imported as {top!r}, which is {other or 'another package'}: "
                "rename the folder, or give it an __init__.py"
            )
        return _import(place, lambda: _from_file(f"app_{place.module}", place.file)), False
    return _import(place, lambda: importlib.import_module(place.module)), True


def _spec(top: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None


def _leads_to(spec: ModuleSpec | None, file: Path) -> bool:
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ())] if file.is_dir() else [spec.origin or ""]
    return any(Path(each).resolve() == file for each in places)


def _from_file(name: str, file: Path | None) -> ModuleType:
    """Import a file under another name than its own, which is that of another module."""
    assert file is not None
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _import(place: Place, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == place.module:
            raise RequestError(f"there is no module {place.module!r}") from error
        # The module is users' code, which may raise anything, and end the program.
        text = error_text(error)
        failed = DefinitionError(f"{place.given} cannot be imported: {code_of(error)}{f': {text}' if text else ''}")
        lines = foreign_traceback(error).split("\n")
        raise with_traceback(failed, "\n".join(line for line in lines if "<frozen importlib" not in line)) from None
