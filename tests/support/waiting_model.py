"""A model whose calls a test can see and hold up, in whatever process they are made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from actors import Content, LlmRequest, LlmResponse


class GatedModel:
    """Tells when it is asked, and answers when it is let: by pipes, which block until somebody is at the other end.

    Args:
        folder: for the pipes.
        answer: what it says.
    """

    def __init__(self, folder: Path, answer: str) -> None:
        self.asked, self.gate = folder / "asked", folder / "gate"
        self._answer = answer
        os.mkfifo(self.asked)
        os.mkfifo(self.gate)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Wait at the gate."""
        await asyncio.to_thread(self.asked.write_text, "asked")
        await asyncio.to_thread(self.gate.read_text)
        yield LlmResponse(content=Content.of_text(self._answer, role="model"))

    def is_asked(self) -> None:
        """Wait until it is asked."""
        self.asked.read_text()

    def let(self) -> None:
        """Let one call through."""
        self.gate.write_text("open")
