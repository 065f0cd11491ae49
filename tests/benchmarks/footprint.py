"""What a deployment takes of its machines: memory by process and by session, CPU by turn and at rest. Clusters are sized by it.

Read from the kernel, so on Linux only. What else a machine does changes these less than it does times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import LlmAgent
from actors.interfaces.model import Model
from runtime.driver.runtime import Runtime
from runtime.models.anthropic import AnthropicModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from tests.benchmarks.figures import Figure
from tests.benchmarks.gemini import gemini_server, service
from tests.benchmarks.plan import Plan
from tests.benchmarks.throughput import talk
from tests.benchmarks.workloads import ROOT, instant_agent, run_load, run_turn, runtime, write_history
from tests.support.machine.process_use import cpu_s, use_of
from tests.support.servers.chat_server import ChatServer, MessagesServer, chat, message, said
from tests.support.servers.gemini_server import GeminiServer

NAME = "footprint"
_EVENTS = 100
"""Of each session whose memory is measured."""
_AT_ONCE = 64

SESSION, RUNNER, AGENT = "the Session actor", "the Runner", "an agent"


def measure(plan: Plan) -> list[Figure]:
    """Each process after a turn, when it has served many sessions, over turns, at rest; then agents with each kind of model."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_history(folder, {f"session-{number}": _EVENTS for number in range(plan.remembered)})
        own = asyncio.run(_own(plan, folder))
    return [
        *own,
        *(Figure(f"memory of {AGENT} that has asked {kind}", _memory_with(kind, plan) / 1e6, "MB") for kind in _MODELS),
    ]


async def _own(plan: Plan, folder: Path) -> list[Figure]:
    async with runtime(plan, instant_agent(), folder) as rt:
        turn = talk(rt)
        await turn(0)
        first = {who: use_of(pid).memory for who, pid in (await _pids(rt)).items()}
        await run_load(turn, sessions=plan.remembered, turns=plan.remembered)
        pids = await _pids(rt)
        then = {who: use_of(pid).memory for who, pid in pids.items()}
        before_s = {who: cpu_s(pid) for who, pid in pids.items()}
        done = await run_load(turn, sessions=min(_AT_ONCE, plan.remembered), turns=plan.load)
        spent_s = {who: cpu_s(pid) - before_s[who] for who, pid in pids.items()}
        before_s = {who: cpu_s(pid) for who, pid in pids.items()}
        await asyncio.sleep(plan.rest_s)
        idle = {who: (cpu_s(pid) - before_s[who]) / plan.rest_s for who, pid in pids.items()}
    turns = len(done.latencies_ms)
    return [
        *(Figure(f"memory of {who}", memory / 1e6, "MB") for who, memory in first.items()),
        *(
            Figure(f"memory of a session in {who}", (then[who] - first[who]) / plan.remembered / 1e3, "kB")
            for who in (SESSION, AGENT)
        ),
        *(Figure(f"CPU of a turn in {who}", spent * 1_000 / turns, "ms") for who, spent in spent_s.items()),
        *(Figure(f"CPU of {who} that is not spoken to, in a second", of_second * 1_000, "ms") for who, of_second in idle.items()),
    ]


async def memories(plan: Plan, folder: Path) -> list[Figure]:
    """The memory of each process after one turn."""
    async with runtime(plan, instant_agent(), folder) as rt:
        await talk(rt)(0)
        return [Figure(f"memory of {who}", use_of(pid).memory / 1e6, "MB") for who, pid in (await _pids(rt)).items()]


def chat_server() -> ChatServer:
    """A service of Chat Completions that answers "ok"."""
    return ChatServer(lambda _: chat("ok"))


def messages_server() -> MessagesServer:
    """A service of Anthropic's Messages that answers "ok"."""
    return MessagesServer(lambda _: message(said("ok")))


_MODELS: dict[str, tuple[Callable[[], GeminiServer], Callable[[str], Model]]] = {
    "Gemini": (gemini_server, lambda url: Gemini(model="gemini-2.5-flash", api_key="key", base_url=url)),
    "OpenAI": (chat_server, lambda url: OpenAIModel("gpt-5", api_key="key", base_url=f"{url}/v1")),
    "Anthropic": (messages_server, lambda url: AnthropicModel("claude", api_key="key", base_url=url)),
}
"""By the name in the figures: the service, and the model."""


def _memory_with(kind: str, plan: Plan) -> int:
    make, model = _MODELS[kind]
    with service(make) as url, TemporaryDirectory() as folder, runtime(plan, _asking(model(url)), Path(folder)) as rt:
        run_turn(rt, "s")
        return use_of(rt.statistics().agents[ROOT].pid).memory


def _asking(model: Model) -> LlmAgent:
    return LlmAgent(name=ROOT, model=model)


async def _pids(rt: Runtime) -> dict[str, int]:
    seen = await rt.aio.statistics()
    return {SESSION: seen.session.pid, RUNNER: seen.runner.pid, AGENT: seen.agents[ROOT].pid}
