"""Everything that another user may try at running processes: found by what they have open, and not by a list of names."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from runtime.frontends.testing.leaks import processes
from tests.support.machine.listening import descendants
from tests.support.machine.other_user import run_as_other

# Processes run in it, and each test that makes something there makes it look new.
CHECKOUT = Path.cwd()

TRY = """
def is_done(call):
    try:
        call()
    except OSError:
        return False
    return True
def connect(path):
    kind = socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX, kind) as asking:
        asking.connect("\\0" + path[1:] if path.startswith("@") else path)
def make_and_remove(path):
    os.mkdir(path)
    os.rmdir(path)
def rename_and_back(path):
    os.rename(path, path + ".taken")
    os.rename(path + ".taken", path)
given = json.load(sys.stdin)
done = []
for path in given["paths"]:
    here = os.path.dirname(path)
    attempts = {
        "list": lambda: os.listdir(path),
        "read": lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)),
        "write": lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)),
        "connect": lambda: connect(path),
        "create inside": lambda: make_and_remove(path + "/trespass"),
        "create beside": lambda: make_and_remove(here + "/trespass"),
        "rename": lambda: rename_and_back(path),
        "change mode": lambda: os.chmod(path, 0o777),
    }
    for what, attempt in attempts.items():
        if what not in given["allowed"].get(here, ()) and is_done(attempt):
            done.append(f"{what} {path}")
for pid, descriptors in given["processes"].items():
    if is_done(lambda: os.kill(int(pid), 0)):
        done.append(f"signal {pid}")
    for each in descriptors:
        if is_done(lambda: os.close(os.open(f"/proc/{pid}/fd/{each}", os.O_RDONLY | os.O_NONBLOCK))):
            done.append(f"open descriptor {each} of {pid}")
print(json.dumps(done))
"""


def processes_of(pid: int) -> list[int]:
    """A process, all that it has started, and those that were handed on to others but still have one end of a pipe of these."""
    known = _pipes(os.getpid())
    found = descendants(pid)
    pipes = set().union(*map(_pipes, found)) - known
    started = [each.pid for each in processes() if each.pid != os.getpid()]
    return [*found, *(each for each in started if each not in found and _pipes(each) & pipes)]


def _pipes(pid: int) -> set[str]:
    links = set()
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                links.add(os.readlink(link))
    return {link for link in links if link.startswith("pipe:")}


def things_of(pids: Iterable[int], since_s: float) -> set[str]:
    """All paths that processes have open, mapped, bound or as their folders, and what lies in the folders that they have made.

    Names of sockets that are no paths begin with `@`.

    Args:
        since_s: seconds since the epoch. What is older is no thing of theirs, as Python's own files.
    """
    inodes, found = set(), set()
    for pid in pids:
        # Some end meanwhile.
        with suppress(OSError):
            process = Path(f"/proc/{pid}")
            links = [*(process / "fd").iterdir(), process / "cwd"]
            for link in links:
                with suppress(OSError):
                    target = os.readlink(link)
                    inodes.add(target.removeprefix("socket:[").removesuffix("]"))
                    found.add(target)
            found |= {line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines()}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[6] in inodes:
            found.add(fields[7])
    paths = {path for path in found if path.startswith("/") and _is_new(Path(path), since_s)}
    roots = {top for path in paths if (top := _topmost(Path(path), since_s)) is not None}
    below = {str(each) for root in roots for each in root.rglob("*")}
    return paths | {str(root) for root in roots} | below | {name for name in found if name.startswith("@")}


def _is_new(path: Path, since_s: float) -> bool:
    if path == CHECKOUT:
        return False
    with suppress(OSError):
        seen = path.lstat()
        is_device = stat.S_ISCHR(seen.st_mode) or stat.S_ISBLK(seen.st_mode)
        return seen.st_ctime >= since_s and not is_device and not path.is_relative_to("/proc")
    return False


def _topmost(path: Path, since_s: float) -> Path | None:
    """The highest folder above a path that is as new as it, but for those that all users may change."""
    found = None
    for folder in path.parents:
        if not _is_new(folder, since_s) or folder.stat().st_mode & 0o002:
            break
        found = folder
    return found


def trespasses(
    pids: Collection[int], paths: Iterable[str], of_all: Iterable[Path] = (), of_user: Iterable[Path] = ()
) -> list[str]:
    """Have another user try everything at paths and processes. Returns what could be done.

    Args:
        of_user: files and folders that the user has made for all to read.
        of_all: folders that all users may change, so that another one may make something there, and, in those without the sticky
            bit, rename what is directly in them.
    """
    descriptors: dict[int, list[str]] = {}
    for pid in pids:
        with suppress(OSError):
            descriptors[pid] = os.listdir(f"/proc/{pid}/fd")
    allowed = {str(folder): _allowed_in(folder) for folder in of_all}
    given = {"paths": sorted(paths), "processes": descriptors, "allowed": allowed}
    done: list[str] = json.loads(run_as_other(TRY, given=json.dumps(given)))
    readable = {f"{what} {path}" for path in of_user for what in ("list", "read")}
    return sorted(set(done) - readable)


def _allowed_in(folder: Path) -> list[str]:
    return ["create beside"] if folder.stat().st_mode & stat.S_ISVTX else ["create beside", "rename"]
