"""How fast the pieces of a streamed answer come to the driver."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, LlmAgent, RunConfig
from actors.interfaces.model import Model
from actors.messages.event import USER
from actors.messages.llm import LlmRequest, LlmResponse
from runtime import Runtime
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, runtime

NAME = "streaming"
_PIECE = "a few words and "


class StreamingModel:
    """A model that yields `chunks` partial responses as fast as they are taken."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Say all pieces, then the whole."""
        for _ in range(self._chunks if stream else 0):
            yield LlmResponse(content=Content.of_text(_PIECE, role="model"), partial=True)
        yield LlmResponse(content=Content.of_text(_PIECE * self._chunks, role="model"))


def measure(plan: Plan) -> list[Figure]:
    """Partial events a second, and the time to the first, with a model that never waits."""
    model: Model = StreamingModel(plan.chunks)
    with TemporaryDirectory() as folder, runtime(plan, LlmAgent(name=ROOT, model=model), Path(folder)) as rt:
        _stream(rt)
        taken = [_stream(rt) for _ in range(plan.streams)]
    first_s, rate = (median([each[index] for each in taken]) for index in range(2))
    return [
        Figure(f"{plan.chunks:,} pieces: rate", rate, "partials/s"),
        Figure("first piece", first_s * 1_000, "ms"),
    ]


def _stream(rt: Runtime) -> tuple[float, float]:
    """Seconds to the first piece, and pieces a second from the message to the last one."""
    began_s = time.perf_counter()
    at_s = [
        time.perf_counter() - began_s
        for event in rt.run(user_id=USER, session_id="s", message="go on", run_config=RunConfig(streaming="sse"))
        if event.partial
    ]
    return at_s[0], len(at_s) / at_s[-1]
