"""Names inside Ray that its documentation does not promise, and what becomes of the rest when one of them is missing."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any

import ray

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

    def or_without(self) -> _OrWithout:
        """Go on behind the block where Ray has no such name, or takes other arguments. The log then says what is lost."""
        return _OrWithout(self)


class _OrWithout:
    def __init__(self, name: PrivateName) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if not isinstance(error, AttributeError | ImportError | TypeError):
            return False
        _log_loss(self._name, str(error))
        return True


@cache
def _log_loss(name: PrivateName, reason: str) -> None:
    import ray

    where = f"{name.module}.{name.path}"
    logger.warning("Ray %s has no %s as raygrove knows it: %s (%s)", ray.__version__, where, name.lost, reason)


LOWEST = (2, 52)
"""The first version that works: it is the first with token authentication."""

BELOW = (2, 61)
"""The first version that was not tried."""

RANGE = ">={}.{},<{}.{}".format(*LOWEST, *BELOW)
"""Both, as in pyproject.toml."""


def is_tested() -> bool:
    """Whether the installed version of Ray is one of these. If not, the log says so, once."""
    return _is_tested(ray.__version__)


@cache
def _is_tested(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    is_tested = numbers is not None and LOWEST <= (int(numbers[1]), int(numbers[2])) < BELOW
    if not is_tested:
        logger.warning("raygrove is not tested with Ray %s, but with ray%s: a local Ray starts as Ray has it", version, RANGE)
    return is_tested
