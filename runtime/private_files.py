"""Files and folders that only their owner may read: what an app stores and logs has the words of its users.

A folder that is there already stays as it is, since it may be shared by its owner on purpose. A new file in it is private all
all the same.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600

SHORT = Path("/tmp")
"""The folder for temporary files where the one of the environment has a name that is too long for the path of a socket."""

MAX_PARENT_BYTES = 15
"""The longest name of a folder for temporary files under which the paths of all sockets are short enough."""


def make_folder(folder: Path) -> None:
    """Make a folder, and all that are missing above it, for this user only. Raises OSError."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def opener(path: str, flags: int) -> int:
    """Open a file that is private if it is made: the `opener` of `open`. Raises OSError."""
    return os.open(path, flags, FILE_MODE)


def make_file(path: Path) -> None:
    """Make an empty file, without ever opening a file of that name. One that is there stays as it is.

    Where this cannot be done nothing happens: opening the file says why.
    """
    with suppress(OSError):
        place_file(path, b"")


def place_file(path: Path, content: bytes) -> None:
    """Make a file that has its content from the first moment on. One that is there, or is made meanwhile, stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def is_private(folder: Path) -> bool:
    """Whether it is a folder, and no link, of this user, which no other user may enter."""
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return False


def temporary_folder() -> Path:
    """A private folder in the one for temporary files. All processes of this user find the same one.

    Another user may have made a folder of that name. Then it is one of a name that cannot be foreseen.

    Raises:
        OSError: none can be made.
    """
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > MAX_PARENT_BYTES and os.access(SHORT, os.W_OK | os.X_OK):
        parent = SHORT
    name = f"raygrove-{os.geteuid()}"
    with suppress(FileExistsError):
        (parent / name).mkdir(FOLDER_MODE)
    for folder in (parent / name, *sorted(parent.glob(f"{name}-*"))):
        if is_private(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))


def is_readable_by_others(path: Path) -> bool:
    """Whether another user may read a file: it and all folders above it let others in. False when it is not there."""
    with suppress(OSError):
        if not path.stat().st_mode & 0o044:
            return False
        return all(folder.stat().st_mode & 0o011 for folder in path.resolve().parents)
    return False
