"""Thousands of turns at once whose models are asked over HTTP, by each SDK, beside the same SDK in a plain program.

`python -m tests.benchmarks.real_models 16384 openai` measures one case.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import aiohttp
import uvloop

from actors import LlmAgent, RunConfig
from actors.definitions.agents.base import Placement
from tests.benchmarks.figures import Figure
from tests.benchmarks.gemini import service
from tests.benchmarks.plan import FULL, Plan
from tests.benchmarks.workloads import ROOT, SENTENCE, runtime
from tests.support.machine.process_use import cpu_s, pids_of, use_of
from tests.support.servers.model_service import MODELS, ModelService

NAME = "models"

REPLICAS = 4
WARM = 64
"""Calls before those that are measured: they load everything."""

Call = Callable[[], Awaitable[object]]


class Burst(NamedTuple):
    """Outcomes of turns that began at once.

    Attributes:
        failed: how many.
        cpu_ms: of a turn, by the kind of process.
        sent_cpu_s: of all processes until the last call had come to the service.
        bytes: by which all processes had grown then, for each turn.
        most: calls that the service had at once.
        connections: that were made.
    """

    failed: int
    cpu_ms: dict[str, float]
    sent_cpu_s: float
    bytes: float
    most: int
    connections: int


def measure(plan: Plan) -> list[Figure]:
    """CPU of a turn for each number of turns at once, SDK and way of asking; and how soon all calls were under way."""
    figures = []
    for at_once in plan.real_calls:
        with service(partial(ModelService, takes_s=plan.real_model_s)) as url:
            bare_ms = uvloop.run(_plain(partial(_bare, url), at_once))
        name = f"{at_once:,} calls at once: CPU of one by aiohttp alone"
        figures.append(Figure(benchmark=NAME, name=name, value=bare_ms, unit="ms"))
        for sdk in MODELS:
            for is_streamed in (False, True):
                figures += _case(plan, sdk, at_once, is_streamed)
    return figures


def _case(plan: Plan, sdk: str, at_once: int, is_streamed: bool) -> list[Figure]:
    with service(partial(ModelService, takes_s=plan.real_model_s)) as url:
        plain_ms = uvloop.run(_plain(partial(_PLAIN[sdk], url, is_streamed), at_once))
    with TemporaryDirectory() as folder, service(partial(ModelService, takes_s=plan.real_model_s)) as url:
        done = uvloop.run(_burst(plan, sdk, url, at_once, is_streamed, Path(folder)))
    told = f"{at_once:,} turns at once, {sdk}{', streamed' if is_streamed else ''}"
    print(f"{told}: {done}, plain {plain_ms:.2f} ms", flush=True)
    agents_ms = sum(spent for who, spent in done.cpu_ms.items() if who.startswith("agent") or plan.engine == "local")
    return [
        Figure(
            benchmark=NAME,
            name=f"{told}: CPU of the agents' processes",
            value=agents_ms,
            unit="ms",
            reference=plain_ms,
            reference_name="plain client",
        ),
        Figure(
            benchmark=NAME,
            name=f"{told}: CPU of all processes",
            value=sum(done.cpu_ms.values()),
            unit="ms",
            reference=plain_ms,
            reference_name="plain client",
        ),
        Figure(benchmark=NAME, name=f"{told}: CPU until all calls had come, on 2 cores", value=done.sent_cpu_s / 2, unit="s"),
        Figure(benchmark=NAME, name=f"{told}: memory of a turn", value=max(done.bytes, 1) / 1e3, unit="kB"),
        Figure(benchmark=NAME, name=f"{told}: answered", value=at_once - done.failed, unit="turns"),
    ]


async def _burst(plan: Plan, sdk: str, url: str, at_once: int, is_streamed: bool, folder: Path) -> Burst:
    model = MODELS[sdk](url, api_key="key", retries=0)
    root = LlmAgent(name=ROOT, model=model, placement=Placement(replicas=REPLICAS))
    config = RunConfig(streaming="sse" if is_streamed else "none")
    async with runtime(plan, root, folder, max_concurrency=100_000) as rt, aiohttp.ClientSession() as http:

        async def turn(user: str) -> None:
            await rt.run(user_id=user, session_id="s", message=SENTENCE, run_config=config)

        await asyncio.gather(*(turn(f"warm-{number}") for number in range(WARM)))
        pids = await pids_of(rt)
        before_s, before_bytes = {who: cpu_s(pid) for who, pid in pids.items()}, _memory(pids)
        turns = asyncio.gather(*(turn(f"user-{number}") for number in range(at_once)), return_exceptions=True)
        came = asyncio.ensure_future(_figures_of(http, f"{url}/figures?calls={WARM + at_once}"))
        await asyncio.wait({came, turns}, return_when=asyncio.FIRST_COMPLETED)
        sent_s = sum(cpu_s(pid) - before_s[who] for who, pid in pids.items())
        grown = (_memory(pids) - before_bytes) / at_once
        outcomes = await turns
        for error in {repr(each) for each in outcomes if each is not None}:
            print(error)
        came.cancel()
        seen = await _figures_of(http, f"{url}/figures")
        used = {who: (cpu_s(pid) - before_s[who]) * 1_000 / at_once for who, pid in pids.items()}
        failed = sum(each is not None for each in outcomes)
        return Burst(failed, used, sent_s, grown, seen["most"], seen["connections"])


def _memory(pids: dict[str, int]) -> int:
    return sum(use_of(pid).memory for pid in pids.values())


async def _figures_of(http: aiohttp.ClientSession, url: str) -> Any:
    async with http.get(url) as answer:
        return json.loads(await answer.read())


async def _plain(client: Callable[[], Any], at_once: int) -> float:
    """Milliseconds of CPU of one call of a plain program."""
    async with client() as call:
        await asyncio.gather(*(call() for _ in range(WARM)))
        before_s = time.process_time()
        await asyncio.gather(*(call() for _ in range(at_once)))
        return (time.process_time() - before_s) * 1_000 / at_once


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[Call]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def call() -> None:
            async with http.post(f"{url}/v1/chat/completions", json={"messages": [SENTENCE]}) as answer:
                await answer.json()

        yield call


@asynccontextmanager
async def _openai(url: str, is_streamed: bool) -> AsyncIterator[Call]:
    import openai

    limits = openai.DefaultAioHttpClient(limits=_no_limits())
    async with openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", http_client=limits, timeout=None, max_retries=0) as client:

        async def call() -> None:
            answer = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": SENTENCE}], stream=is_streamed
            )
            if isinstance(answer, openai.AsyncStream):
                async for _ in answer:
                    pass

        yield call


@asynccontextmanager
async def _anthropic(url: str, is_streamed: bool) -> AsyncIterator[Call]:
    import anthropic

    limits = anthropic.DefaultAioHttpClient(limits=_no_limits())
    async with anthropic.AsyncAnthropic(api_key="key", base_url=url, http_client=limits, timeout=None, max_retries=0) as client:

        async def call() -> None:
            # As AnthropicModel does it, also where nothing is shown.
            async with await client.messages.create(
                model="m", messages=[{"role": "user", "content": SENTENCE}], max_tokens=100, stream=True
            ) as events:
                async for _ in events:
                    pass

        yield call


@asynccontextmanager
async def _gemini(url: str, is_streamed: bool) -> AsyncIterator[Call]:
    import warnings

    from google import genai

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it makes a subclass of aiohttp's session, which aiohttp warns of
        client = genai.Client(api_key="key", vertexai=False, http_options=genai.types.HttpOptions(base_url=url))

        async def call() -> None:
            if is_streamed:
                async for _ in await client.aio.models.generate_content_stream(model="m", contents=SENTENCE):
                    pass
            else:
                await client.aio.models.generate_content(model="m", contents=SENTENCE)

        yield call
        await client.aio.aclose()


def _no_limits() -> Any:
    import httpx2

    return httpx2.Limits(max_connections=0, keepalive_expiry=30.0)  # 0 is aiohttp's word for no limit


_PLAIN: dict[str, Callable[..., Any]] = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}

if __name__ == "__main__":
    number, name, *streamed = sys.argv[1:]
    for each in _case(FULL, name, int(number), bool(streamed)):
        print(each.name, round(each.value, 3), each.unit, "" if each.ratio is None else f"x {each.ratio:.2f}")
