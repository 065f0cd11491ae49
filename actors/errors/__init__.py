"""All errors of raygrove."""

from typing import TYPE_CHECKING

from actors.errors.tree import *

if not TYPE_CHECKING:
    from actors.errors.tree import __all__ as __all__
