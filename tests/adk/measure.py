"""What the adapter costs: python -m tests.adk.measure

Prints the time and memory of importing it, and the CPU of a turn by the events of history: of a native agent, of an adapted one,
and of adapted ones with a callback.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.adk.agents import LlmAgent as AdkLlmAgent
from google.genai import types

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from runtime import Runtime
from runtime.adk import from_adk

TURNS, BATCHES = 8, 30
HISTORY = (10, 1_000)


class Echo:
    """A model that costs nothing, for native and adapted agents alike."""

    model = "echo"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=Content.of_text("ok", role="model"))


def look(callback_context: Any, llm_request: Any) -> None:
    """Read nothing."""


def look_at_last(callback_context: Any, llm_request: Any) -> None:
    """Read what the user has said."""
    assert llm_request.contents[-1].parts[0].text == "hi"


def append(callback_context: Any, llm_request: Any) -> None:
    """Append to the contents."""
    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="be brief")]))


def adapted(callback: Any = None) -> LlmAgent:
    """An adapted agent with the native one's model, so that only the adapter is measured."""
    tree = from_adk(AdkLlmAgent(name="root", model="gemini-2.5-flash", before_model_callback=callback)).root_agent
    return tree.model_copy(update={"model": Echo()})  # type: ignore[return-value]


def cpu_ms(roots: Mapping[str, LlmAgent], history: int) -> dict[str, float]:
    """The CPU of a turn of each agent, in ms, when the session has that many events: of the batch that was disturbed least.

    The agents take turns, so that what else the machine does is the same for all.
    """
    with ExitStack() as stack:
        runtimes: dict[str, Runtime] = {}
        for kind, root in roots.items():
            store = f"sqlite:///{stack.enter_context(TemporaryDirectory())}/sessions.db"
            runtimes[kind] = stack.enter_context(Runtime(root, app_name="measure", engine="local", session_store=store))
            _batch(runtimes[kind], history // 2)
        batches = [{kind: _batch(rt, TURNS) for kind, rt in runtimes.items()} for _ in range(BATCHES)]
    return {kind: min(batch[kind] for batch in batches) for kind in roots}


def _batch(rt: Runtime, turns: int) -> float:
    begin = time.process_time()
    for _ in range(turns):
        rt.run(user_id="u", session_id="s", message="hi").result()
    return (time.process_time() - begin) * 1_000 / turns


def importing(modules: str) -> str:
    """Seconds and megabytes of a process that imports them."""
    code = f"import time, actors, runtime, {modules}; print(time.process_time(), open('/proc/self/statm').read().split()[1])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, pages = map(float, said.split())
    return f"{seconds:.2f} s of CPU, {pages * resource.getpagesize() / 2**20:.0f} MB"


def main() -> None:
    """Print all figures, and the load of the machine beside them."""
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}, {os.cpu_count()} CPUs")
    modules = {
        "without the adapter": "runtime.models",
        "of google-adk alone": "google.adk.agents.llm_agent",
        "of an adapted agent": "google.adk.agents.llm_agent, runtime.integrations.adk.callbacks, runtime.integrations.adk.tools",
        "of a program that adapts": "google.adk.agents.llm_agent, runtime.integrations.adk.convert",
    }
    for what, names in modules.items():
        print(f"imports {what}: {importing(names)}")
    kinds = {
        "native": LlmAgent(name="root", model=Echo()),
        "adapted": adapted(),
        "adapted, a callback that reads nothing": adapted(look),
        "adapted, a callback that looks at the newest content": adapted(look_at_last),
        "adapted, a callback that appends": adapted(append),
    }
    for history in HISTORY:
        costs = cpu_ms(kinds, history)
        for kind, cost in costs.items():
            print(f"{history} events, {kind}: {cost:.2f} ms of CPU a turn, {cost / costs['native']:.2f} times native")


if __name__ == "__main__":
    main()
