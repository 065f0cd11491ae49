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
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.adk.agents import LlmAgent as AdkLlmAgent
from google.genai import types

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from runtime import Runtime
from runtime.adk import from_adk

TURNS, BATCHES = 50, 6
HISTORY = (10, 1_000)


class Echo:
    """A model that costs nothing, for native and adapted agents alike."""

    model = "echo"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Say something short."""
        yield LlmResponse(content=Content.of_text("ok", role="model"))


def look(callback_context: Any, llm_request: Any) -> None:
    """Read nothing."""


def append(callback_context: Any, llm_request: Any) -> None:
    """Append to the contents."""
    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="be brief")]))


def adapted(callback: Any = None) -> LlmAgent:
    """An adapted agent with the native one's model, so that only the adapter is measured."""
    tree = from_adk(AdkLlmAgent(name="root", model="gemini-2.5-flash", before_model_callback=callback)).root_agent
    return tree.model_copy(update={"model": Echo()})  # type: ignore[return-value]


def cpu_ms(root: LlmAgent, history: int) -> float:
    """The CPU of a turn, in ms, when the session has that many events: of the batch of turns that was disturbed least."""
    with TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/sessions.db"
        with Runtime(root, app_name="measure", engine="local", session_store=store) as rt:
            for _ in range(history // 2):
                rt.run(user_id="u", session_id="s", message="hi").result()
            return min(_batch(rt) for _ in range(BATCHES))


def _batch(rt: Runtime) -> float:
    begin = time.process_time()
    for _ in range(TURNS):
        rt.run(user_id="u", session_id="s", message="hi").result()
    return (time.process_time() - begin) * 1_000 / TURNS


def importing(module: str) -> str:
    """Seconds and megabytes of a process that imports it."""
    code = f"import time, actors, runtime, {module}; print(time.process_time(), open('/proc/self/statm').read().split()[1])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, pages = map(float, said.split())
    return f"{seconds:.2f} s of CPU, {pages * resource.getpagesize() / 2**20:.0f} MB"


def main() -> None:
    """Print all figures, and the load of the machine beside them."""
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}, {os.cpu_count()} CPUs")
    print(f"imports without the adapter: {importing('runtime.models')}")
    print(f"imports with the adapter: {importing('runtime.adk')}")
    kinds = {
        "native": LlmAgent(name="root", model=Echo()),
        "adapted": adapted(),
        "adapted, a callback that reads nothing": adapted(look),
        "adapted, a callback that appends": adapted(append),
    }
    for history in HISTORY:
        for kind, root in kinds.items():
            print(f"{history} events, {kind}: {cpu_ms(root, history):.2f} ms of CPU a turn")


if __name__ == "__main__":
    main()
