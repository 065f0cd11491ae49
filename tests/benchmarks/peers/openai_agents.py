"""OpenAI Agents SDK: `Runner` with `SQLiteSession`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, set_tracing_disabled  # type: ignore[import-not-found,unused-ignore]
from openai.types.responses import ResponseOutputMessage, ResponseOutputText  # type: ignore[import-not-found,unused-ignore]

from tests.benchmarks.peers.peer import ANSWER, SAID, main


class InstantModel(Model):  # type: ignore[misc,unused-ignore]
    """Answers at once."""

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Not asked for."""
        raise NotImplementedError


class OpenAIAgents:
    """One agent, and the sessions that were spoken to."""

    def __init__(self, folder: Path) -> None:
        self._database = folder / "agents.db"
        self._agent = Agent(name="root", model=InstantModel())
        self._sessions: dict[str, Any] = {}

    async def turn(self, session: str) -> str:
        """A run of the runner."""
        result = await Runner.run(self._agent, SAID, session=self._session(session))
        return str(result.final_output)

    async def store_turns(self, session: str, turns: int) -> None:
        """Have the session store the items of one turn again and again: that is all that turns leave behind."""
        await self.turn(session)
        items = await self._session(session).get_items()
        for _ in range(1, turns):
            await self._session(session).add_items(items)

    write_history = store_turns

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    def _session(self, session: str) -> Any:
        return self._sessions.setdefault(session, None) or self._open(session)

    def _open(self, session: str) -> Any:
        self._sessions[session] = SQLiteSession(session, self._database)
        return self._sessions[session]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[OpenAIAgents]:
    """The agent with its database in a folder."""
    set_tracing_disabled(True)  # traces would be sent to a service
    logging.disable(logging.WARNING)
    peer = OpenAIAgents(folder)
    try:
        yield peer
    finally:
        peer.close()


if __name__ == "__main__":
    main("openai-agents", opened)
