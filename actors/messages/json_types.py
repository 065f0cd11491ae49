"""Names for JSON data, as it stands in messages, events, state and tools.

Only this file writes JSON as `Any`. msgspec would check a recursive type at every hop, so `actors.messages.codec` checks values
once, where they enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonValue = Any
"""None, a boolean, a number, a text, or a list or object of JSON values."""

JsonObject = dict[str, Any]
"""A JSON object that its holder may change: arguments of a call, a tool's result, a schema."""

JsonMapping = Mapping[str, Any]
"""A JSON object that is only read."""

StateDelta = dict[str, Any]
"""Changes of session state: a new value by key, with the scope's prefix in the key."""

Progress = dict[str, Any]
"""How far an agent's run is, in that agent's own words: what it stored as `actions.agent_state`."""
