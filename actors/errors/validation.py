"""What pydantic found wrong with a value, in one line for people and models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.errors.calls import no_such_field

if TYPE_CHECKING:
    from pydantic import ValidationError


def problems(error: ValidationError, *, whole: str = "", fields: Iterable[str] = ()) -> str:
    """Every error as `field: message`, separated by semicolons.

    Args:
        whole: stands in place of the field where an error is about the value as a whole; "" leaves it out.
        fields: the names that fields can have, from which the nearest is suggested; without them none is.
    """
    valid = list(fields)
    found = []
    for detail in error.errors():
        message = detail["msg"].removeprefix("Value error, ")
        if valid and detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
            message = no_such_field(str(detail["loc"][0]), valid)
        found.append((".".join(map(str, detail["loc"])) or whole, message))
    return "; ".join(f"{field}: {message}" if field else message for field, message in found)
