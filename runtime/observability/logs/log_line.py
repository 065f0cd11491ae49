"""A line of an agent's log, as programs read it with its turn."""

from __future__ import annotations

import msgspec

from actors.messages.shown import Shown


class LogLine(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an agent has logged or printed.

    Attributes:
        at_s: when, in seconds since the epoch.
        level: the name of the level; prints are INFO.
        logger: the name of the logger; "stdout" or "stderr" for what was printed.
        text: the message, or what was printed.
        details: the traceback, or the stack; "" without one.
    """

    at_s: float
    agent: str
    level: str
    logger: str
    text: str
    details: str = ""
    pid: int = 0
