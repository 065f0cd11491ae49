"""The turn of google-adk: `python adk.py TURNS HISTORY…`, in an environment with google-adk. Prints JSON; see this folder's head.

Knows nothing of this project, since it runs in another environment.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.events import Event  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.runners import Runner  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.sessions import DatabaseSessionService, InMemorySessionService  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.genai import types

_APP, _USER = "bench", "user"
_SAID = "x" * 100


class InstantLlm(BaseLlm):  # type: ignore[misc,unused-ignore]
    """Answers at once."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        """Say ok."""
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="ok")]))


async def median_ms(service: Any, history: int, turns: int) -> float:
    """Milliseconds of a turn in a session that has had `history` turns."""
    agent = LlmAgent(name="root", model=InstantLlm(model="instant"))
    runner = Runner(agent=agent, app_name=_APP, session_service=service)
    session = await service.create_session(app_name=_APP, user_id=_USER)
    for index in range(2 * history):
        role, author = ("user", "user") if index % 2 == 0 else ("model", "root")
        content = types.Content(role=role, parts=[types.Part(text=_SAID)])
        await service.append_event(session, Event(author=author, invocation_id=f"e-{index // 2}", content=content))
    samples_ms = []
    for _ in range(turns):
        message = types.Content(role="user", parts=[types.Part(text=_SAID)])
        began_s = time.perf_counter()
        async for _ in runner.run_async(user_id=_USER, session_id=session.id, new_message=message):
            pass
        samples_ms.append((time.perf_counter() - began_s) * 1_000)
    return statistics.median(samples_ms)


async def main(turns: int, histories: list[int]) -> None:
    """Measure every store at every history."""
    logging.disable(logging.WARNING)  # a warning each turn that the model tells no tokens: not the peer's own cost
    with tempfile.TemporaryDirectory() as folder:
        services = {
            "in memory": InMemorySessionService(),
            "SQLite": DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{folder}/adk.db"),
        }
        taken = {
            store: {history: await median_ms(service, history, turns) for history in histories}
            for store, service in services.items()
        }
    print(json.dumps(taken))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), [int(history) for history in sys.argv[2:]]))
