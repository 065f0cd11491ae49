"""Where the code of an app is: what a path on the command line names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from actors.errors import RequestError
from actors.errors.hints import did_you_mean

AGENT = "agent"
"""The module of a folder that has the root agent, as in ADK."""

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FORMS = "give a folder with agent.py, a Python file, or module:attribute"

CONFIG = "root_agent.yaml"
"""The file of a folder that describes the root agent, as in ADK. What the folder's module has as its root comes first."""


@dataclass(frozen=True)
class Place:
    """A module, and where it is imported from.

    Attributes:
        given: the path as the user wrote it, without the attribute.
        folder: goes on `sys.path`.
        module: its name there.
        file: the file or folder that the first part of the name has to lead to; None: any.
        home: the folder of the app, with its `.env`.
        attribute: the name of the root agent in the module; "" when the user named none.
        config: the file that describes the root agent; None without one.
    """

    given: str
    folder: Path
    module: str
    file: Path | None
    home: Path
    attribute: str
    app: str
    config: Path | None = None


def is_code(given: str) -> bool:
    """True for what names an app's code; False for what can only be the name of a deployment that runs."""
    return not is_plain(given) or Path(given).is_dir()


def is_plain(given: str) -> bool:
    """True for a name that may be that of a deployment, also where a folder has it: `desk`, and not `./desk` or `desk:root`."""
    return not any(mark in given for mark in (":", "/", ".py", ".yaml"))


def meant_place(given: str) -> str:
    """A hint for the error about a path that lacks its `.py`: " Did you mean 'desk.py'?", or "" without such a file."""
    path, _, attribute = given.partition(":")
    if not path or path.endswith("/") or not Path(f"{path}.py").is_file():
        return ""
    return f" Did you mean {f'{path}.py:{attribute}' if attribute else f'{path}.py'!r}?"


def _like(given: str) -> str:
    """The same for a path that is written like that of another app beside it."""
    folder = Path(given).parent
    if not folder.is_dir():
        return ""
    beside = [*folder.glob("*.py"), *(file.parent for file in folder.glob(f"*/{AGENT}.py"))]
    return did_you_mean(str(Path(given)), sorted(map(str, beside)))


def find(given: str) -> Place:
    """The place that a path names: a folder, a file or a module, each with or without an attribute.

    Raises:
        RequestError: there is no such place.
    """
    path, attribute = Path(given), ""
    head, colon, tail = given.rpartition(":")
    if not path.exists() and colon:
        path, attribute = Path(head), tail
        if not tail.isidentifier():
            raise RequestError(f"{given!r}: {tail!r} is no name of an agent: write it as {head}:root_agent")
    shown = head if attribute else given
    if path.is_dir():
        return _of_folder(shown, path.resolve(), attribute)
    if path.is_file():
        return _of_file(shown, path.resolve(), attribute)
    if attribute and _MODULE.fullmatch(head):
        here = Path.cwd()
        return Place(head, here, head, None, here, attribute, head.rpartition(".")[2])
    hint = meant_place(given) or _like(shown)
    raise RequestError(f"there is no file or folder {shown!r}" + (f".{hint}" if hint else f": {_FORMS}"))


def _of_folder(given: str, folder: Path, attribute: str) -> Place:
    if (folder / f"{AGENT}.py").is_file() or (folder / AGENT / "__init__.py").is_file():
        module = f"{folder.name}.{AGENT}"
    elif (folder / "__init__.py").is_file() or (folder / CONFIG).is_file():
        module = folder.name
    else:
        inside = sorted({file.parent.name for name in (f"{AGENT}.py", CONFIG) for file in folder.glob(f"*/{name}")})[:3]
        named = [str(Path(given) / name) for name in inside]
        hint = f". Did you mean {' or '.join(named)}?" if named else f": {_FORMS}"
        raise RequestError(f"the folder {given!r} has no agent.py{hint}")
    if "." in folder.name or not folder.name:
        raise RequestError(f"the folder {given!r} cannot be imported: its name must not have dots, so rename it")
    config = folder / CONFIG
    return Place(given, folder.parent, module, folder, folder, attribute, folder.name, config if config.is_file() else None)


def _of_file(given: str, file: Path, attribute: str) -> Place:
    if file.name == CONFIG:
        return _of_folder(given, file.parent, attribute)
    if file.suffix != ".py":
        raise RequestError(f"{given!r} is no Python file: {_FORMS}")
    folder = file.parent
    if file.stem == "__init__":
        return _of_folder(given, folder, attribute)
    if file.stem == AGENT or (folder / "__init__.py").is_file():
        # A module of a package: its relative imports have to work.
        name = folder.name if file.stem == AGENT else file.stem
        return Place(given, folder.parent, f"{folder.name}.{file.stem}", folder, folder, attribute, name)
    return Place(given, folder, file.stem, file, folder, attribute, file.stem)
