"""The random part of ids, made for many ids at once: to ask the kernel for each takes longer than all else of an id."""

from __future__ import annotations

import os

IDS_AT_ONCE = 256

_BYTES = 10
"""A UUID without its time."""

_VERSION_7 = bytes(0x70 | byte & 0x0F for byte in range(256))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
"""What becomes of a random byte that holds the version of a UUID, or its variant, besides."""

_left: list[str] = []
"""What is made and not taken, for all threads: to take the last of a list is one step of the interpreter."""


def take_random_digits() -> str:
    """The 20 hex digits after the time of a UUID of version 7. No two calls get the same, in no thread and no fork."""
    try:
        return _left.pop()
    except IndexError:
        made = _made()
        digits = made.pop()
        _left.extend(made)
        return digits


def _made() -> list[str]:
    random = bytearray(os.urandom(_BYTES * IDS_AT_ONCE))
    random[0::_BYTES] = random[0::_BYTES].translate(_VERSION_7)
    random[2::_BYTES] = random[2::_BYTES].translate(_VARIANT)
    digits = random.hex()
    return [digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES)]


def drop_random_digits() -> None:
    """Make new ones for the next id. A fork does, since its parent has the same."""
    _left.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=drop_random_digits)
