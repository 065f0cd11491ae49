"""The caches of a deployment's processes on one node share a memory: each notes what it takes, and reads what the others do.

Rules of this file:
1. A process has a file in a folder of the node, which it holds locked as long as it lives: the kernel lets go of the lock of one
   that is lost, and the next process that looks removes the file.
2. The files of a deployment have names that begin alike, by its secret and the machine: folders may be shared.
3. A file has its name only when it is locked.
4. What cannot be done is passed over: then a cache may take what it was made with.
5. A cache that needs little leaves the rest to others: what counts is what they take, not how many there are. None has to take
   less than an even share, and where none takes more than it may, all together take no more than there is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from actors.rules.eviction import Cache
from runtime.private_files import FILE_MODE, temporary_folder
from runtime.transport.io.listening import this_machine

LOOK_S = 5.0
"""Time between two looks. Caches grow by some MiB meanwhile, when there is much to do."""

SUFFIX = ".cache"


def share_node(secret: bytes, max_bytes: int, cache: Cache) -> None:
    """Have the cache of this process take no more than its share of the node's memory for caches, as long as the process lives.

    Args:
        max_bytes: of all its caches on the node.
    """
    with suppress(OSError):
        NodeCaches(temporary_folder(), secret, max_bytes, cache).start()


class NodeCaches:
    """Bounds the cache of this process by those of the deployment's other processes on its node.

    Args:
        folder: of the node, which only its owner may enter.
        max_bytes: of all its caches on the node.
    """

    def __init__(self, folder: Path, secret: bytes, max_bytes: int, cache: Cache) -> None:
        self._folder = folder
        self._prefix = f"{this_machine()}{hashlib.sha256(secret).hexdigest()[:16]}-"
        self._name = f"{self._prefix}{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        self._max_bytes = max_bytes
        self._cache = cache
        self._own: int | None = None
        self._over = threading.Event()
        with suppress(OSError):
            self._enter()
        self.look()

    def start(self) -> None:
        """Look from time to time, in a thread that ends with the process."""
        threading.Thread(target=self._watch, name="raygrove-caches", daemon=True).start()

    def look(self) -> None:
        """Write down what the cache takes, and see how much it may take."""
        with suppress(OSError):
            if self._own is not None:
                os.pwrite(self._own, b"%020d" % self._cache.weight, 0)
            self._cache.max_bytes = cache_share(self._max_bytes, self._others())

    def close(self) -> None:
        """Take no part any more, as when the process is lost."""
        self._over.set()
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()

    def _enter(self) -> None:
        draft = self._folder / f".{self._name}"
        own = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
        fcntl.flock(own, fcntl.LOCK_EX)
        draft.rename(self._folder / self._name)
        self._own = own

    def _others(self) -> Iterator[int]:
        """The bytes that each of the other caches takes."""
        return (size for name, size in caches_in(self._folder).items() if name.startswith(self._prefix) and name != self._name)


def caches_in(folder: Path) -> Mapping[str, int]:
    """The bytes that each cache takes, by the name of its file. Files of processes that are gone are removed."""
    found = {}
    for path in folder.glob(f"{this_machine()}*{SUFFIX}"):
        with suppress(OSError, ValueError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found[path.name] = int(file.read())
            else:
                path.unlink(missing_ok=True)
    return found


def cache_share(max_bytes: int, others: Iterable[int]) -> int:
    """The bytes that a cache may take: the most with which the others keep what they have, up to as much as it has itself.

    Args:
        max_bytes: of all caches together.
        others: bytes that each of the others takes.
    """
    weights = sorted(others)
    left = max_bytes
    for number, weight in enumerate(weights):
        even = left // (len(weights) - number + 1)
        if weight >= even:
            return even
        left -= weight
    return left
