"""The versions of Ray with which raygrove is tested."""

from __future__ import annotations

import logging
import re
from functools import cache

import ray

logger = logging.getLogger(__name__)

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
