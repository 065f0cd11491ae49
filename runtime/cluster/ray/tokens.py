"""Ray's token: whether this program has one, and whether Ray sends it."""

from __future__ import annotations

import os
from contextlib import suppress

from runtime.cluster.ray.local.ownership import MODE, TOKENS, token_file
from runtime.cluster.ray.names import PrivateName

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
