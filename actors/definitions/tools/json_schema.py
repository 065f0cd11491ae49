"""JSON schemas of pydantic models, for language models to read."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pydantic

from actors.messages.json_types import JsonObject


def json_schema(model: type[pydantic.BaseModel]) -> JsonObject:
    """A copy of the JSON schema of a model, which the caller may change.

    Raises:
        pydantic.errors.PydanticUserError: a field has no JSON schema.
    """
    copied: JsonObject = msgspec.to_builtins(_cached(model))
    return copied


@lru_cache(maxsize=10_000)
def _cached(model: type[pydantic.BaseModel]) -> JsonObject:
    # pydantic takes about a millisecond, and every model call wants the schemas of all of an agent's tools.
    return model.model_json_schema()
