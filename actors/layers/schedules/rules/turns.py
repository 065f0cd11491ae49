"""The id of the turn that a due time makes: the same for whatever begins it, so that it begins once.

A message that waits to be read by a turn is kept as a schedule that is due at once: so it begins a turn if none reads it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from actors.messages.config import RunConfig
from actors.messages.json_types import JsonObject
from actors.messages.protocol.turns import ScheduledTime

_TURN_ID = re.compile(r"s-[0-9a-f]{32}-\d{8}T\d{6}Z|(?:run|told|asks|sent|steer)-[0-9a-f]{16,32}(?:-[0-9a-f]{16})?")


def turn_id(time: ScheduledTime) -> str:
    """The invocation id of the turn: the schedule's own id, and the due time for people. A message has it as its id."""
    if time.is_message:
        return time.id
    return f"{time.id}-{datetime.fromtimestamp(time.due_s, UTC):%Y%m%dT%H%M%SZ}"


def is_turn_of_schedule(invocation_id: str) -> bool:
    """True for the id of a turn that a due time has made, or a message of an agent: no program waits for it."""
    return _TURN_ID.fullmatch(invocation_id) is not None


def turn_config(config: RunConfig, name: str, due_s: int | None = None) -> RunConfig:
    """The options of a turn of a schedule: its user's event says from which, and for when, unless it was run by hand."""
    mark: JsonObject = {"schedule": name}
    if due_s is not None:
        mark["due"] = datetime.fromtimestamp(due_s, UTC).isoformat().replace("+00:00", "Z")
    return msgspec.structs.replace(config, custom_metadata={**(config.custom_metadata or {}), **mark})
