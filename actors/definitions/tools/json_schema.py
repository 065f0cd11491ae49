"""JSON schemas of pydantic models, for models to read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import pydantic


def json_schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model, as the caller's own: it may be changed.

    pydantic takes about a millisecond to make one, and every model call wants those of all of an agent's tools.

    Raises:
        pydantic.errors.PydanticUserError: a field has none.
    """
    copied: dict[str, Any] = msgspec.to_builtins(_made(model))
    return copied


@lru_cache(maxsize=10_000)
def _made(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()
