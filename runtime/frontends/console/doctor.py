"""`raygrove doctor`: what this machine lacks, and how to get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from runtime.frontends.console import options, runtimes

MARKS = {"ok": "✓", "missing": "–", "wrong": "✗"}
LEAST_FREE_SHARE = 0.05
"""Of a disk; Ray takes no more objects beyond it."""

EXTRAS = {
    "web": "starlette",
    "openai": "openai",
    "anthropic": "anthropic",
    "mcp": "mcp",
    "openapi": "httpx",
    "otel": "opentelemetry.sdk",
    "postgres": "psycopg",
    "data": "pyarrow",
    "adk": "google.adk",
}
"""The extras, each with a module that it installs."""

App = Annotated[
    str | None,
    typer.Argument(metavar="APP", help="A path, as of `raygrove run`: is it complete?", autocompletion=options.complete_app),
]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster that is to be there.")]
Store = Annotated[list[str] | None, typer.Option(help="URL of a session store that is to be there; of several each.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one check a line.")]


class Check(NamedTuple):
    """What was looked at, how it is, and what that means.

    Attributes:
        state: ok; missing: some programs need it; wrong.
    """

    name: str
    state: Literal["ok", "missing", "wrong"]
    text: str


def doctor(app: App = None, address: Address = None, store: Store = None, json: Json = False) -> None:
    """Check Python, Ray, settings, stores, keys and extras, and with APP the app's code.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    from runtime.frontends.console.output import print_json
    from runtime.frontends.console.terminal import Terminal

    terminal, is_wrong = Terminal(), False
    for check in _checks(app, address, store):
        is_wrong |= check.state == "wrong"
        if json:
            print_json([check._asdict()])
        else:
            terminal.write(f"{MARKS[check.state]} {check.name:10} {' '.join(check.text.split())}")
    raise typer.Exit(1 if is_wrong else 0)


def _checks(app: str | None, address: str | None, store: list[str] | None) -> Iterator[Check]:
    from actors.errors import RaygroveError
    from runtime.settings import Settings

    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("versions", "ok", f"raygrove {metadata.version('raygrove')}, Ray {metadata.version('ray')}, Python {python}")
    try:
        settings = Settings()
    except RaygroveError as error:
        # Nothing else works without them.
        yield Check("settings", "wrong", str(error))
        return
    changed = sorted(name for name in os.environ if name.startswith("RAYGROVE_"))
    yield Check("settings", "ok", f"of the environment: {', '.join(changed)}" if changed else "the default ones")
    yield _ray(address)
    yield _disk(settings.data_dir)
    yield from _readable(settings.data_dir)
    if store:
        yield from map(_store, store)
    if app is not None:
        # First: it reads the app's .env, which may have keys.
        yield _app(app)
    yield from _keys()
    yield _port(8000)
    there = [extra for extra, module in EXTRAS.items() if _is_there(module)]
    lacking = [extra for extra in EXTRAS if extra not in there]
    yield Check("extras", "ok", ", ".join(there) or "none")
    if lacking:
        yield Check("extras", "missing", f"{', '.join(lacking)}: pip install 'raygrove[{lacking[0]}]'")


def _ray(address: str | None) -> Check:
    from actors.errors import ClusterError

    try:
        where = runtimes.find_ray(address)
    except ClusterError as error:
        # The local engine, and programs that start a Ray of their own, need none.
        return Check("Ray", "missing", str(error))
    try:
        names = sorted(each.app for each in runtimes.running_apps(where))
    except ClusterError as error:
        return Check("Ray", "wrong", str(error))
    return Check("Ray", "ok", f"at {where}, deployments: {', '.join(names) or 'none'}")


def _disk(folder: Path) -> Check:
    import shutil

    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        return Check("data", "wrong", f"{there} cannot be written: set RAYGROVE_DATA_DIR to a folder that can")
    use = shutil.disk_usage(there)
    free = f"{use.free / 2**30:.1f} GB free for {folder.absolute()}"
    if use.free < LEAST_FREE_SHARE * use.total:
        return Check("data", "wrong", f"{free}, less than {LEAST_FREE_SHARE:.0%} of the disk: make room")
    return Check("data", "ok", free)


def _readable(folder: Path) -> Iterator[Check]:
    from runtime.cluster.ray.tokens import token_file
    from runtime.private_files import is_readable_by_others

    tokens = []
    with suppress(RuntimeError):
        tokens.append(token_file())
    for path in (*tokens, *sorted(folder.glob("*.db"))):
        if is_readable_by_others(path):
            yield Check("private", "wrong", f"other users of this machine may read {path}: chmod go= {path}")


def _store(url: str) -> Check:
    from actors.errors import RaygroveError
    from runtime.engine.store_urls import open_session_store
    from runtime.settings import Settings

    try:
        opened = open_session_store(runtimes.existing_session_store(None, [url]), Settings())
        opened.open()
        opened.close()
    except RaygroveError as error:
        return Check("store", "wrong", str(error))
    return Check("store", "ok", "it can be opened")


def _app(path: str) -> Check:
    from actors.errors import RaygroveError

    try:
        rt = runtimes.open_app(runtimes.Where(path))
    except RaygroveError as error:
        return Check("app", "wrong", str(error))
    number = 1 + rt.tree(limit=1).hidden
    return Check("app", "ok", f"{rt.app_name}: {number} {'agents' if number > 1 else 'agent'}")


def _keys() -> Iterator[Check]:
    from runtime.models.gemini import HOW_TO_GIVE, missing_credentials, uses_vertex
    from runtime.models.openai.services import SERVICES

    keys = {name: service.key_variable for name, service in SERVICES.items() if service.key_variable}
    keys["anthropic"] = "ANTHROPIC_API_KEY"
    lacking = missing_credentials("gemini", None, os.environ)
    found = [] if lacking else ["Vertex AI" if uses_vertex(os.environ) else "Gemini"]
    found += [name for name, variable in keys.items() if os.environ.get(variable)]
    if found:
        yield Check("keys", "ok", f"of {', '.join(found)}")
    else:
        yield Check("keys", "missing", f"{HOW_TO_GIVE}; of other models: {', '.join(keys.values())}")


def _port(port: int) -> Check:
    import socket

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            return Check("port", "missing", f"{port} is not free ({error.strerror}): raygrove serve --port takes another one")
    return Check("port", "ok", f"{port} is free for raygrove serve")


def _is_there(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ImportError:
        return False
