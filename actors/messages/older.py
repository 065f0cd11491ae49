"""Objects that an older release has pickled."""

from __future__ import annotations

from pydantic import BaseModel


def add_defaults(unpickled: BaseModel) -> None:
    """Give an object the defaults of the fields that the release which has pickled it did not have."""
    for name, field in type(unpickled).model_fields.items():
        if name not in unpickled.__dict__ and not field.is_required():
            unpickled.__dict__[name] = field.get_default(call_default_factory=True)
