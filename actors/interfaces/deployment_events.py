"""Events of a deployment: what happens to its processes, its store and its connections, for those who operate it.

They are records of one logger that name their kind, so they travel, and are kept in files, as all that is logged.
"""

from __future__ import annotations

import logging
from typing import Literal

EventKind = Literal[
    "process started",
    "process lost",
    "process replaced",
    "actor replaced",
    "node drains",
    "version changed",
    "store away",
    "store back",
    "control service away",
    "control service back",
    "over Ray",
    "direct again",
    "overload",
    "budget",
]
"""What an event is about: processes, nodes, versions, the store, Ray's control service, messages, overload, or budgets."""

LOGGER = "raygrove.events"
"""The logger of all events."""

KIND = "deployment_event"
"""The attribute of their records that has the kind."""


_logger = logging.getLogger(LOGGER)


def tell_event(kind: EventKind, text: str, *args: object, level: int = logging.WARNING) -> None:
    """Log an event.

    Args:
        text, args: as `logging` takes them.
        level: INFO for what is as it should be. Events of INFO are kept, but reach no log whose level is higher.
    """
    _logger.log(level, text, *args, extra={KIND: kind}, stacklevel=2)
