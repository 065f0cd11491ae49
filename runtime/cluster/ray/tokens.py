"""Ray's token: whether this program has one, whether Ray sends it, and that no other user of the machine can read it.

Ray itself writes its token with the modes that files have by default.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from runtime.cluster.ray.names import PrivateName
from runtime.private_files import make_folder, place_file, temporary_folder

MODE = "RAY_AUTH_MODE"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
TOKENS = ("RAY_AUTH_TOKEN", TOKEN_PATH)
"""Environment variables: where a user has put a token."""


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


_CONFIG = PrivateName(
    "ray._raylet", "Config.initialize", f"where a Ray refuses this program for its token, {MODE} has to be set before it starts"
)


def has_token() -> bool:
    """Whether Ray would find a token, whatever RAY_AUTH_MODE says: in one of the places that its documentation names."""
    value, path = (os.environ.get(name) for name in TOKENS)
    if value:
        return bool(value.strip())
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        return bool((token_file() if not path else type(token_file())(path)).read_text().strip())
    return False


def have_local_ray_use_token() -> None:
    """Have the Ray that is started next in this process ask for a token if there is one, unless RAY_AUTH_MODE is set.

    Before 2.60 Ray itself does not.
    """
    if MODE not in os.environ and has_token():
        with _CONFIG.or_without():
            # Ray reads the mode again in this process only by this name. Without it, children would have another mode.
            _CONFIG.find()
            use_mode("token")


def use_mode(mode: str | None) -> None:
    """Have Ray send a token or not, in this process and in its children.

    Args:
        mode: the value of RAY_AUTH_MODE: "token" or "disabled"; None removes the variable, and Ray decides.
    """
    if mode is None:
        os.environ.pop(MODE, None)
    else:
        os.environ[MODE] = mode
    with _CONFIG.or_without():
        # Ray has read its variables when it was imported.
        _CONFIG.find()("")
