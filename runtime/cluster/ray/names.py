"""Names inside Ray that its documentation does not promise, and what becomes of the rest when one of them is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PrivateName:
    """A name inside Ray. A later version may have it no more, or with another meaning.

    Attributes:
        module: where it is, such as `ray._private.node`.
        path: it there, such as `Node.start_raylet`.
        lost: a sentence for the log: what happens without it.
    """

    module: str
    path: str
    lost: str

    def find(self) -> Any:
        """The object that has this name now. Raises AttributeError, ImportError."""
        found: Any = import_module(self.module)
        for name in self.path.split("."):
            found = getattr(found, name)
        return found

    @contextmanager
    def or_without(self) -> Iterator[None]:
        """Go on behind the block where Ray has no such name, or takes other arguments. The log then says what is lost."""
        try:
            yield
        except (AttributeError, ImportError, TypeError) as error:
            _log_loss(self, str(error))


@cache
def _log_loss(name: PrivateName, reason: str) -> None:
    import ray

    where = f"{name.module}.{name.path}"
    logger.warning("Ray %s has no %s as raygrove knows it: %s (%s)", ray.__version__, where, name.lost, reason)
