"""What a model request over a long conversation costs in the agent's process, with the unmodified Gemini client."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from actors.messages.llm import LlmRequest
from actors.rules.prompt.history import History
from runtime.models.gemini import Gemini
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, conversation
from tests.support.servers.gemini_server import GeminiServer, text

NAME = "gemini"


def measure(plan: Plan) -> list[Figure]:
    """CPU of one request from the compiled view to the response."""
    view = History(ROOT)
    for event in conversation(plan.contents):
        view.add(event)
    with service() as url:
        samples_ms = asyncio.run(_ask(Gemini(model="gemini-2.5-flash", api_key="key", base_url=url), view, plan.requests))
    name = f"request of {plan.contents:,} contents: CPU, median"
    return [Figure(name, median(samples_ms), "ms")]


async def _ask(model: Gemini, view: History, times: int) -> list[float]:
    """CPU milliseconds of this process for each request. The first one, which loads the SDK, is not among them."""
    samples_ms = []
    for _ in range(times + 1):
        began_s = time.process_time()
        request = LlmRequest(model=model.model, agent=ROOT, contents=view.contents(), config={"system_instruction": "Be brief."})
        answers = [answer async for answer in model.generate(request, stream=False)]
        samples_ms.append((time.process_time() - began_s) * 1_000)
        assert answers[0].content is not None
    await model.aclose()
    return samples_ms[1:]


@contextmanager
def service(make: Callable[[], GeminiServer] | None = None) -> Iterator[str]:
    """A model's service in a process of its own, so that its CPU is not counted.

    Args:
        make: makes the server, by a function that can be pickled; by default Gemini's.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, make or gemini_server), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join()


def gemini_server() -> GeminiServer:
    """A service that answers "ok"."""
    return GeminiServer(lambda _: text("ok"))


def _serve(pipe: Connection[str, str], make: Callable[[], GeminiServer]) -> None:
    with make() as server:
        pipe.send(server.url)
        pipe.recv()
