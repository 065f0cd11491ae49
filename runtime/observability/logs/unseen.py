"""A handler of ours in a program's `logging`, with which the program prints what it would print without it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator


class UnseenHandler(logging.Handler):
    """A handler that a program has not asked for.

    Python prints warnings and errors by `logging.lastResort` where no logger on a record's way has a handler. Where all of them
    are of this class, the first one prints in the same way.
    """

    @abstractmethod
    def keep(self, record: logging.LogRecord) -> None:
        """Take a record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record, and print it if the program has no handler that does."""
        self.keep(record)
        handlers = list(_handlers(logging.getLogger(record.name)))
        if handlers[:1] == [self] and all(isinstance(each, UnseenHandler) for each in handlers):
            last = logging.lastResort
            if last is not None and record.levelno >= last.level:
                last.handle(record)


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """The handlers on the way of a record of this logger, in their order."""
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
