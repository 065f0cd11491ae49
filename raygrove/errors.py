"""All errors of raygrove."""

from actors.errors import *  # noqa: F403
from actors.errors import __all__ as __all__
