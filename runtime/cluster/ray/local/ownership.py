"""Keeps other users of the machine out of a local Ray: a folder that only its owner may enter, a token that only it may read.

Ray itself lets every user change its folders of logs and sockets, and write its token with the modes that files have by default.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from runtime.private_files import make_folder, place_file, temporary_folder

RAY_FOLDER = "RAY_TMPDIR"
"""Environment variable: where a user has Ray put its folder."""

MAX_FOLDER_BYTES = 107 - len("/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")
"""The longest name of Ray's folder: the path of a Unix socket has at most 107 bytes."""

MODE = "RAY_AUTH_MODE"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
TOKENS = ("RAY_AUTH_TOKEN", TOKEN_PATH)
"""Environment variables: where a user has put a token."""


def folder_of_ray() -> str | None:
    """The folder of a local Ray, in one that only this user may enter; None where Ray chooses one."""
    if os.environ.get(RAY_FOLDER):
        return None
    try:
        folder = str(temporary_folder() / "ray")
    except OSError:
        # Ray says it of its own folder as well, and better.
        return None
    return folder if len(os.fsencode(folder)) <= MAX_FOLDER_BYTES else None


def token_file() -> Path:
    """Where Ray looks for its token, and writes one for a local Ray. Raises RuntimeError: this user has no home."""
    return Path.home() / ".ray" / "auth_token"


def make_token() -> None:
    """Make the token of local Rays, for this user only, where Ray would make one that others may read. Errors are left to Ray.

    In containers a user may have no home, or one that cannot be written: there Ray would not start.
    """
    if os.environ.get(MODE, "token").lower() != "token" or _is_named():
        return
    with suppress(OSError, RuntimeError):
        _make(token_file())
        return
    with suppress(OSError):
        _make(_file_without_home())
        find_token_without_home()


def find_token_without_home() -> None:
    """Have Ray look, from now on, for the token that a program of this user has made outside of its home, if there is one."""
    if _is_named():
        return
    with suppress(OSError, RuntimeError):
        if token_file().exists():
            return
    with suppress(OSError):
        path = _file_without_home()
        if path.exists():
            os.environ[TOKEN_PATH] = str(path)


def _is_named() -> bool:
    """Whether the user has said which token, or where it is."""
    return any(os.environ.get(name) for name in TOKENS)


def _file_without_home() -> Path:
    return temporary_folder() / "auth_token"


def _make(path: Path) -> None:
    if path.exists():
        return
    make_folder(path.parent)
    place_file(path, secrets.token_hex(32).encode())
