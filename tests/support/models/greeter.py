"""A model that answers greetings at once, and waits at a gate where it is asked for anything else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from actors import Content, LlmRequest, LlmResponse
from tests.support.models.waiting_model import GatedModel

GREETING = "hello"


class Greeter(GatedModel):
    """Waits at its gate, but for greetings. It notes the processes that load it."""

    def __init__(self, folder: Path, answer: str) -> None:
        super().__init__(folder, answer)
        self._loaded = folder / "loaded"
        self._loaded.mkdir()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self._loaded / str(os.getpid())).touch()

    def loaded_by(self) -> set[int]:
        """The ids of processes in which it has come with its agent's code."""
        return {int(each.name) for each in self._loaded.iterdir()}

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if request.contents[-1].text == GREETING:
            yield LlmResponse(content=Content.of_text("at once", role="model"))
            return
        async for response in super().generate(request, stream=stream):
            yield response
