"""What pydantic found wrong with a value, in one line for people and models."""

from __future__ import annotations

from pydantic import ValidationError


def problems(error: ValidationError, *, whole: str = "") -> str:
    """Every error as `field: message`, separated by semicolons.

    Args:
        whole: stands in place of the field where an error is about the value as a whole; "" leaves it out.
    """
    found = ((".".join(map(str, detail["loc"])) or whole, detail["msg"]) for detail in error.errors())
    return "; ".join(f"{field}: {message}" if field else message for field, message in found)
