"""Types of the fields of inputs, as JSON Schema describes them. Ids are checked by actors.rules.checks.ids."""

from __future__ import annotations

from typing import Annotated

import msgspec

from actors.messages.json_types import JsonObject
from actors.rules.checks.ids import MAX_ARTIFACT_NAME, MAX_ID

_UNREADABLE = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"

ID: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID,
    "pattern": rf"^[^\s{_UNREADABLE}]([^{_UNREADABLE}]*[^\s{_UNREADABLE}])?$",
}
"""A user, a session or a turn."""

ARTIFACT_NAME: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ARTIFACT_NAME,
    "pattern": rf"^[^{_UNREADABLE}]+$",
}

MAX_NUMBER = 2**53 - 1
"""The largest whole number that a request may have: JSON's numbers are exact up to it in every language."""

State = Annotated[JsonObject, msgspec.Meta(extra_json_schema={"propertyNames": ID})]
"""State by its keys, in a body. Only described here, as ids are."""

Id = Annotated[str, msgspec.Meta(extra_json_schema=ID)]
"""An id in a body. Only described here: the Runtime checks it, and its error says more."""

MAX_PAGE = 1_000
"""The most that a request lists."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]
Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]


class LimitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many at most."""

    limit: Limit = 100
