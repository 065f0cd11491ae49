"""All errors of raygrove."""

from typing import TYPE_CHECKING

from actors.errors import *  # noqa: F403

if not TYPE_CHECKING:
    from actors.errors import __all__ as __all__
