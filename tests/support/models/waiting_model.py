"""A model whose calls a test can await and release, in any process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from actors import Content, LlmRequest, LlmResponse


class GatedModel:
    """Reports each call through one named pipe and waits at another until the test releases it.

    Args:
        folder: for the pipes.
        answer: the text of its response.
    """

    def __init__(self, folder: Path, answer: str) -> None:
        self.called, self.gate = folder / "called", folder / "gate"
        self._answer = answer
        os.mkfifo(self.called)
        os.mkfifo(self.gate)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.to_thread(self.called.write_text, "called")
        await asyncio.to_thread(self.gate.read_text)
        yield LlmResponse(content=Content.of_text(self._answer, role="model"))

    def wait_until_called(self) -> None:
        """Wait until it is called."""
        self.called.read_text()

    def release(self) -> None:
        self.gate.write_text("open")
