"""The sockets of a server: a Unix socket in a folder that only its owner may enter, and a TCP socket on a port of a range.

Rules for the Unix sockets of processes that were killed, which their program removes when it leaves, or the next process that
listens there:
1. The kernel says whether a process holds a socket, listening or not yet: it refuses a socket of another kind with EPROTOTYPE,
   and with ECONNREFUSED when no process holds it. The process that holds it notices nothing.
2. That is first tried on a socket that this process holds. Where the kernel says anything else, nothing is removed.
3. Names begin with the machine's, and no process has the name of one before it. So a folder that several machines share is no
   matter, and what was found dead stays dead.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import random
import re
import socket
import stat
from contextlib import suppress
from itertools import islice
from pathlib import Path

from actors.errors import ClusterError

BACKLOG = 1024
"""Connections that may wait to be accepted: many processes may come at the same time."""

MAX_PATH_BYTES = 107
"""The longest path of a Unix socket on Linux."""

MAX_PORT = 65_535


def port_range(text: str) -> range:
    """The ports in a text such as "20000-20100" or "20000"; "" means any port, and is `range(0, 1)`.

    Raises:
        ClusterError: the text is no range of ports.
    """
    if not text:
        return range(1)
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < first <= last <= MAX_PORT:
        raise ClusterError(f"direct_ports={text!r} is no range of ports: write it as '20000-20100'")
    return range(first, last + 1)


def listen_tcp(host: str, ports: str) -> socket.socket:
    """A socket that listens on the first free port.

    Args:
        host: an address of this machine.
        ports: see `port_range`.

    Raises:
        ClusterError: no port is free, or the address is not of this machine.
    """
    family, address = _resolve(host)
    for port in port_range(ports):
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((address, port))
            found.listen(BACKLOG)
        except OSError as error:
            found.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ClusterError(f"cannot listen on {host}: {error.strerror}") from error
        else:
            return found
    raise ClusterError(f"no port of direct_ports={ports!r} is free on {host}: set direct_ports to a larger range")


def _resolve(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        return family, str(address[0])
    except OSError as error:
        raise ClusterError(f"cannot listen on {host}: {error.strerror}") from error


def listen_unix(folder: Path, name: str) -> socket.socket:
    """A Unix socket that listens in a folder, which is made if it is not there.

    Raises:
        ClusterError: others than its owner may enter the folder, or the path is too long for a socket.
    """
    path = folder / name
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ClusterError(f"{path} is too long for a Unix socket, which may have {MAX_PATH_BYTES} bytes")
    make_private(folder)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(path))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise ClusterError(f"cannot listen on {path}: {error.strerror}") from error
    return found


def make_private(folder: Path) -> None:
    """Make a folder that only its owner may enter, if it is not there.

    Raises:
        ClusterError: it is there and belongs to another user, others may enter it, or it is no folder.
        OSError: it cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise ClusterError(f"{folder} is no folder: direct connections need one of their own") from None
        if found.st_uid != os.geteuid():
            raise ClusterError(
                f"{folder} belongs to user {found.st_uid}, and this process is of user {os.geteuid()}: "
                "direct connections need a folder of its own"
            ) from None
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ClusterError(f"{folder} is open to others: direct connections need a folder of mode 0700") from None


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice that the machine at the other end of a TCP connection is gone, although nothing is sent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def more_handles(listening: socket.socket, at_once: int) -> list[socket.socket]:
    """Further handles on a listening socket, for servers of the running event loop beside its own. Each is to be closed.

    libuv takes one connection for each handle in a pass of the event loop. While passes are long and many connect, the last would
    be heard only after as many passes: by a busy server after seconds, although it answers each at once.

    Args:
        at_once: how many new connections one pass may take.
    """
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        # It takes all that have come.
        return []
    return [socket.fromfd(listening.fileno(), listening.family, listening.type) for _ in range(at_once - 1)]


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
