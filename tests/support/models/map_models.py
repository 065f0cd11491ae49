"""Models and programs for tests of maps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from actors import Content, LlmRequest, LlmResponse


class NotedModel:
    """A model that echoes the newest text and notes each call in a file, on whatever process it runs.

    Args:
        path: the file, a line for each call.
        after_s: how long a call takes; that of a text that begins with "slow" takes ten times as long.
        fails: texts of which the first calls fail, and how many.
        echoes: answer with the text alone.
    """

    def __init__(self, path: Path, after_s: float = 0.0, fails: dict[str, int] | None = None, *, echoes: bool = False) -> None:
        self._before = "" if echoes else "echo "
        self._path = path
        self._after_s = after_s
        self._fails = fails or {}

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Note the call, then echo."""
        text = next(content.text for content in reversed(request.contents) if content.role == "user")
        with self._path.open("a") as file:
            file.write(f"{text}\n")
        await asyncio.sleep(self._after_s * (10 if text.startswith("slow") else 1))
        if self.calls()[text] <= self._fails.get(text, 0):
            raise ConnectionError(f"no line for {text}")
        yield LlmResponse(content=Content.of_text(f"{self._before}{text}", role="model"))

    def calls(self) -> Counter[str]:
        """How often each text was asked."""
        return Counter(self._path.read_text().splitlines()) if self._path.exists() else Counter()
