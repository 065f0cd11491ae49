"""Which version of the protocol a deployment speaks, and which of them this release understands."""

from __future__ import annotations

from actors.messages.protocol.base import PROTOCOL
from runtime.settings import Settings

FIRST = 1
"""The oldest version that is understood."""

STANDBY_SESSIONS = 2
"""Since this version programs know that a Session actor may have a standby. An older one would ask the process that was lost, and
started again, for ever: it stands by, and answers nothing."""


def protocol_of(settings: Settings) -> int:
    """The version that a deployment with these settings speaks: the oldest that programs have to know."""
    return STANDBY_SESSIONS if settings.standby_sessions else FIRST


def is_understood(protocol: int) -> bool:
    """True when programs of this release can join a deployment that speaks this version."""
    return FIRST <= protocol <= PROTOCOL
