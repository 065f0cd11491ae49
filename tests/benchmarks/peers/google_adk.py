"""google-adk: `Runner` over `DatabaseSessionService` on SQLite."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.events import Event  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.runners import Runner  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.adk.sessions import DatabaseSessionService  # type: ignore[import-not-found,import-untyped,unused-ignore]
from google.genai import types

from tests.benchmarks.peers.peer import ANSWER, SAID, main

_APP, _USER = "bench", "user"


class InstantLlm(BaseLlm):  # type: ignore[misc,unused-ignore]
    """Answers at once."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=ANSWER)]))


class GoogleAdk:
    """An app of one agent."""

    def __init__(self, service: Any) -> None:
        agent = LlmAgent(name="root", model=InstantLlm(model="instant"))
        self._service = service
        self._runner = Runner(agent=agent, app_name=_APP, session_service=service, auto_create_session=True)

    async def turn(self, session: str) -> str:
        """A run of the runner."""
        answer = ""
        message = types.Content(role="user", parts=[types.Part(text=SAID)])
        async for event in self._runner.run_async(user_id=_USER, session_id=session, new_message=message):
            if event.is_final_response():
                answer = event.content.parts[0].text
        return answer

    async def store_turns(self, session: str, turns: int) -> None:
        """Have the service store the events of one turn again and again: that is all that turns leave behind."""
        await self.turn(session)
        stored = await self._service.get_session(app_name=_APP, user_id=_USER, session_id=session)
        asked, answered = stored.events
        for number in range(1, turns):
            for event in (asked, answered):
                again = event.model_copy(update={"id": Event.new_id(), "invocation_id": f"e-{number}"})
                await self._service.append_event(stored, again)

    write_history = store_turns


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[GoogleAdk]:
    """The app with its database in a folder."""
    logging.disable(logging.WARNING)  # a warning each turn that the model tells no tokens: not the peer's own cost
    # Its sessions write on connections of their own; with SQLite's usual 5 s some find the database locked.
    service = DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{folder}/adk.db", connect_args={"timeout": 120})
    try:
        yield GoogleAdk(service)
    finally:
        await service.close()


if __name__ == "__main__":
    main("google-adk", opened)
