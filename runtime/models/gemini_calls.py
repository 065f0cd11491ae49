"""One call of Google's client. Importing this file does not load the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.genai import Client, types

_STAND_IN = "."
"""Takes the place of the contents in the SDK's own arguments, which must not be empty; the body overwrites it."""


async def call_service(
    client: Client, model: str, config: Any, stream: bool, timeout_s: float | None
) -> AsyncGenerator[types.GenerateContentResponse, None]:
    """Call the service once, without retries; without `stream` the response comes as one chunk.

    Args:
        config: see `generate_config`.
        timeout_s: a service that says nothing for so long is lost; None: it may.

    Raises:
        TimeoutError: it is lost.
    """
    from google.genai.errors import UnknownApiResponseError

    models = client.aio.models
    try:
        if not stream:
            async with _silence_ends(timeout_s):
                answer = await models.generate_content(model=model, contents=_STAND_IN, config=config)
            yield answer
            return
        async with _silence_ends(timeout_s):
            chunks = await models.generate_content_stream(model=model, contents=_STAND_IN, config=config)
        try:
            while True:
                async with _silence_ends(timeout_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
        except GeneratorExit:
            await _abandon(chunks)
            raise
    except (AttributeError, TypeError) as error:  # what the client raises on JSON of another shape
        raise UnknownApiResponseError(f"JSON of an unknown shape ({error})") from error


@asynccontextmanager
async def _silence_ends(timeout_s: float | None) -> AsyncIterator[None]:
    """Raise TimeoutError after some seconds. The SDK's own limit is one for a whole stream."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise TimeoutError(f"nothing came for {timeout_s:g} s") from error


async def _abandon(chunks: AsyncIterator[Any]) -> None:
    """Free the connection of a stream that is not read to its end.

    Closing the client's generator is not enough: the one that holds the connection sits in a reference cycle, so it is freed
    only by a full garbage collection (google-genai 3.3). Cancelled while it waits for the service, it cleans up at once.
    """
    while True:
        step = asyncio.ensure_future(anext(chunks, None))
        await asyncio.sleep(0)  # let it come as far as the socket, or return what was received already
        step.cancel()
        await asyncio.wait([step])
        if step.cancelled() or step.exception() is not None or step.result() is None:
            return
