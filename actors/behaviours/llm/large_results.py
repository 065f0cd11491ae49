"""Results of tools that are too large for a model: they are kept whole as artifacts, and it is shown their beginning and end."""

from __future__ import annotations

import msgspec

from actors.definitions.tools.context import Actions
from actors.errors import RequestError, StoreError
from actors.interfaces.access import ArtifactAccess
from actors.messages.codec import encode
from actors.messages.content import Blob, FunctionCall, Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.rules.checks.sizes import beginning_and_end

_SHOWN = 16
"""One in so many bytes of the limit is shown of a larger result."""

_LEAST_SHOWN = 1_000


class LargeResults:
    """Shortens results.

    Args:
        limit: bytes that a result may have; 0: any number.
    """

    def __init__(self, artifacts: ArtifactAccess, limit: int) -> None:
        self._artifacts = artifacts
        self._limit = limit

    def is_large(self, size: int) -> bool:
        """True for the size of a result that is to be shortened."""
        return 0 < self._limit < size

    async def shorten(self, call: FunctionCall, response: JsonObject, actions: Actions) -> tuple[JsonObject, int]:
        """Save a response as an artifact, and return a short one with its name; and the bytes of that.

        Where it cannot be saved, the short response says why.

        Args:
            actions: get the version of the artifact.
        """
        key, told, text = _parts(response)
        data = text.encode()
        kind, ending = ("text/plain", "txt") if isinstance(told, str) else ("application/json", "json")
        name = f"{call.name}_{call.id}.{ending}"
        short: JsonObject = {}
        try:
            version = await self._artifacts.save(name, Part(inline_data=Blob(data=data, mime_type=kind)))
        except (StoreError, RequestError, OSError) as error:
            whole = f"it could not be saved as an artifact ({error})"
        else:
            actions.artifact_delta[name] = version
            short["artifact"] = name
            whole = f"the artifact {name!r} has the whole"
        short["shortened"] = (
            f"This {key} of {len(data)} bytes is too large to be shown: {whole}. Here are its beginning and its end."
        )
        short[key] = beginning_and_end(text, max(self._limit // _SHOWN, _LEAST_SHOWN))
        return short, len(encode(short))


def shortened(response: JsonObject, room: int) -> JsonObject:
    """A response without its middle, if it has more characters than there is room for."""
    key, _, text = _parts(response)
    return response if len(text) <= room else {key: beginning_and_end(text, room)}


def _parts(response: JsonObject) -> tuple[str, JsonValue, str]:
    """The key of a response under which its value stands, or is to stand; the value; and it as a text."""
    key = "error" if response.keys() == {"error"} else "result"
    told = response[key] if response.keys() == {key} else response
    return key, told, told if isinstance(told, str) else msgspec.json.encode(told).decode()
