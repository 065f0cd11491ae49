"""Socket files of processes that were killed: their program removes them when it leaves, or the next process that listens there.

Rules of this file:
1. The kernel says whether a process holds a socket, listening or not yet: it refuses a socket of another kind with EPROTOTYPE,
   and with ECONNREFUSED when no process holds it. The process that holds it notices nothing.
2. That is first tried on a socket that this process holds. Where the kernel says anything else, nothing is removed.
3. Names begin with the machine's, and no process has the name of one before it. So a folder that several machines share is no
   matter, and what was found dead stays dead.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import socket
from contextlib import suppress
from itertools import islice
from pathlib import Path

BOOT_DIGITS = 10
"""Digits of a socket's name that come from the boot."""

MAX_LISTED = 10_000
"""Names of a folder that a process looks at when it begins to listen."""

MAX_TRIED = 100
"""Sockets among them that it tries. Each process leaves one at most, so a few for each start are enough."""


def socket_name(boot: bytes) -> str:
    """The name of the socket of a process."""
    return f"{this_machine()}{boot.hex()[:BOOT_DIGITS]}.sock"


def remove_stale(own: Path) -> None:
    """Remove sockets of processes that are gone from a folder, some hundred at most. Errors are passed over.

    Args:
        own: the socket of this process, in that folder.
    """
    with suppress(OSError):
        if _is_held(own) is not True:
            return
        form = re.compile(rf"{this_machine()}[0-9a-f]{{{BOOT_DIGITS}}}\.sock")
        with os.scandir(own.parent) as entries:
            listed = (entry.name for entry in islice(entries, MAX_LISTED))
            names = [name for name in listed if name != own.name and form.fullmatch(name)]
        # Any of them: the first ones may be those of processes that live.
        for name in random.sample(names, min(MAX_TRIED, len(names))):
            path = own.parent / name
            if _is_held(path) is False and path.is_socket():
                path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove the sockets of processes that are gone from a folder, as `remove_stale`, for a process that has none there."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as held:
        own = folder / socket_name(os.urandom(BOOT_DIGITS))
        held.bind(str(own))
        try:
            remove_stale(own)
        finally:
            own.unlink()


def _is_held(path: Path) -> bool | None:
    """Whether a process holds a stream socket; None: the kernel does not say."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            return {errno.EPROTOTYPE: True, errno.ECONNREFUSED: False}.get(error.errno or 0)
    return None


def this_machine() -> str:
    """Letters that tell this machine from others, at the beginning of the names of files that processes of this one make."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
