"""An app that is loaded from a path: its module is imported, and its root agent found."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from actors.definitions.agents.base import BaseAgent
from actors.errors import DefinitionError, RequestError
from actors.errors.hints import did_you_mean, problems
from actors.errors.tracebacks import foreign_traceback, with_traceback
from actors.errors.user_code import code_of, error_text
from actors.layers.agent_tool import AgentTool
from actors.layers.flows.definitions import Flow
from runtime.frontends.loading.places import Place, find
from runtime.settings import PREFIX, Settings

NAMES = ("app", "root_agent", "root")
"""Names that a root agent has in its module, the first one there counts."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class LoadedApp:
    """An app, as its code defines it.

    Attributes:
        root: the root agent, or a flow; or what google.adk has as one.
        name: for `app_name`: that of the folder, the file or the module.
        folder: where its code is imported from.
        variables: those of its `.env`.
        module: that has the root agent.
        is_importable: other processes can import the module, with the folder on their path.
    """

    root: object
    name: str
    folder: str
    variables: Mapping[str, str]
    module: ModuleType
    is_importable: bool

    def settings(self, *, on_ray: bool) -> Settings:
        """The settings of the environment, and with them the app's variables.

        Args:
            on_ray: other processes run the app, and import its code.
        """
        env = {name: value for name, value in self.variables.items() if not name.startswith(PREFIX)}
        if on_ray:
            env["PYTHONPATH"] = os.pathsep.join([self.folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        return Settings(env={**Settings().variables, **env})


def load_app(given: str) -> LoadedApp:
    """Load the app that a path names.

    Args:
        given: a folder with `agent.py` or `root_agent.yaml`, a package, a Python file, or `module:attribute`; those with a module
            may have an attribute behind a colon as well.

    Raises:
        RequestError: there is no such path, or no root agent in it.
        DefinitionError: its code cannot be imported, or the root is no agent.
    """
    place = find(given)
    variables = load_environment(place.home)
    module, is_importable = import_place(place)
    name = _NOT_IN_NAMES.sub("-", place.app).strip("-._") or "app"
    return LoadedApp(_root(place, module), name, str(place.folder), variables, module, is_importable)


def as_root(given: object, where: str) -> object:
    """The root for Runtime, out of an app's code. Raises DefinitionError."""
    if isinstance(given, BaseAgent | Flow) or is_adk(given):
        return given
    raise DefinitionError(f"{where} must be an agent or a flow, not {type(given).__name__}")


def is_adk(given: object) -> bool:
    """True for an agent, a node or an App of google.adk."""
    return _has_class_of_adk(given, "BaseAgent", "BaseNode", "App")


def _has_class_of_adk(given: object, *names: str) -> bool:
    classes = (each for each in type(given).__mro__ if each.__module__.split(".")[:2] == ["google", "adk"])
    return any(each.__name__ in names for each in classes)


def _is_tree(name: str, value: object) -> bool:
    """True for what may be a root. Of ADK's nodes only graphs are, unless they have a name of a root."""
    if isinstance(value, BaseAgent | Flow):
        return True
    return is_adk(value) if name in NAMES else _has_class_of_adk(value, "BaseAgent", "Workflow", "App")


def _root(place: Place, module: ModuleType) -> object:
    found = {name: value for name, value in vars(module).items() if _is_tree(name, value)}
    if place.attribute:
        if not hasattr(module, place.attribute):
            hint = did_you_mean(place.attribute, list(found)) or f" Agents in it: {', '.join(found) or 'none'}."
            raise RequestError(f"{place.given} has no {place.attribute!r}.{hint}")
        return as_root(getattr(module, place.attribute), f"{place.given}:{place.attribute}")
    name = next((name for name in NAMES if name in found), None)
    if name is None and place.config is not None:
        return agent_of_config(place.config)
    if name is None:
        name = _only(place, found)
    return as_root(found[name], f"{place.given}:{name}")


def _only(place: Place, found: Mapping[str, object]) -> str:
    """The only agent that is not part of another one. Raises RequestError."""
    inner: set[int] = {id(part) for value in found.values() for part in _parts(value)}
    tops = {id(value): name for name, value in reversed(list(found.items())) if id(value) not in inner}
    names: list[str] = sorted(tops.values())
    if not names:
        raise RequestError(f"{place.given} defines no agent: name the root of its tree root_agent")
    if len(names) > 1:
        named = " or ".join(f"{place.given}:{name}" for name in names[:4])
        raise RequestError(f"{place.given} has several agents and none of them is named root_agent: choose one, such as {named}")
    return names[0]


def _parts(value: object) -> Iterator[object]:
    """The parts of an agent or a flow: agents below it, those that are its tools, agents of its tasks, nodes of its graph."""
    children = [*getattr(value, "sub_agents", ()), *getattr(value, "agents", ())]
    children += getattr(getattr(value, "graph", None), "nodes", ())
    children += [tool.agent for tool in getattr(value, "tools", ()) if isinstance(tool, AgentTool)]
    for task in getattr(value, "tasks", ()):
        children += getattr(task, "agents", None) or ()
    for child in children:
        yield child
        yield from _parts(child)


def agent_of_config(file: Path) -> Any:
    """The root agent that a `root_agent.yaml` describes.

    Args:
        file: the file. The folder above its own is on `sys.path`, so that it can name functions by their modules.

    Raises:
        DefinitionError: the file is wrong, or what it names cannot be imported, or google-adk is not installed.
    """
    # Without google-adk this says what to install.
    import_module("runtime.integrations.adk")
    from google.adk.agents.config_agent_utils import from_config

    try:
        with warnings.catch_warnings():
            # ADK warns that the feature is an experiment, and of classes of its own that this function uses.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return from_config(str(file))
    except ValidationError as error:
        raise DefinitionError(f"{file.parent.name}/{file.name} describes no agent: {problems(error)}") from error
    except Exception as error:
        # Beside what ADK raises, the modules that the file names may raise anything.
        cause = error.__cause__
        more = f" ({code_of(cause)}: {error_text(cause)})" if isinstance(cause, Exception) else ""
        text = " ".join(f"{error_text(error)}{more}".split())
        raise DefinitionError(f"{file.parent.name}/{file.name} describes no agent: {text}") from error


NAME = ".env"


def load_environment(folder: Path) -> dict[str, str]:
    """Put the variables of the nearest `.env` file into the environment of this process. What the environment has wins.

    Args:
        folder: of the app. Below the working directory, the folders between the two are searched as well.

    Returns:
        The variables of the file, with the values that they have now.
    """
    file = next((file for each in _folders(folder.resolve()) if (file := each / NAME).is_file()), None)
    if file is None:
        return {}
    # Imported here: most apps have no such file.
    from dotenv import load_dotenv
    from dotenv.main import DotEnv

    load_dotenv(file, override=False, encoding="utf-8")
    return {name: os.environ[name] for name in DotEnv(file, encoding="utf-8").dict() if name in os.environ}


def _folders(folder: Path) -> Iterator[Path]:
    """The folder, then its parents up to the working directory when that is one of them."""
    yield folder
    top = Path.cwd()
    if top in folder.parents:
        yield from folder.parents[: folder.parents.index(top) + 1]


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
