"""Workloads of benchmarks: Runtimes with stores of their own, prepared histories, and load from many sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors import BaseAgent, Content, Event, Flow, LlmAgent, RunConfig
from actors.interfaces.stores import AddEvent, CreateSession, EventHead, EventRow, Write
from actors.messages.codec import encode
from actors.messages.event import USER, new_event_id, new_invocation_id, now_s
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql.sessions import SqlSessionStore
from tests.benchmarks.plan import Plan

APP = "bench"
ROOT = "root"
SENTENCE = "x" * 100
"""What all models say: about one or two short sentences."""


def instant_agent() -> LlmAgent:
    """An agent whose model answers at once."""
    return LlmAgent(name=ROOT, model=PatternModel([], default="ok"))


def store_url(folder: Path) -> str:
    """The session store of a benchmark's Runtime."""
    return f"sqlite:///{folder}/sessions.db"


def runtime(
    plan: Plan, root: BaseAgent | Flow, folder: Path, app: str = APP, *, session_store: str = "", **settings: Any
) -> Runtime:
    """A Runtime, not started, with its stores in a folder, or its sessions elsewhere. `settings` are fields of Settings."""
    return Runtime(
        root,
        app_name=app,
        engine=plan.engine,
        session_store=session_store or store_url(folder),
        artifact_store=f"file://{folder}/artifacts",
        settings=Settings(log_to_driver=False, **settings),
    )


def run_turn(rt: Runtime, session_id: str, message: str = SENTENCE, config: RunConfig | None = None) -> list[Event]:
    """Run a turn to its end and return its events."""
    return list(rt.run(user_id=USER, session_id=session_id, message=message, run_config=config))


def conversation(count: int, agent: str = ROOT) -> list[Event]:
    """Events of the user and an agent, alternating."""
    return [_event(USER if index % 2 == 0 else agent) for index in range(count)]


def write_history(folder: Path, lengths: dict[str, int], agent: str = ROOT) -> None:
    """Write sessions of so many events with an agent, by session id. No Runtime may be using the store."""
    store = SqlSessionStore(store_url(folder))
    store.open()
    try:
        for session_id, length in lengths.items():
            store.commit(history(SessionKey(APP, USER, session_id), conversation(length, agent)))
    finally:
        store.close()


def history(key: SessionKey, events: Sequence[Event]) -> list[Write]:
    """The writes of a new session with these events."""
    rows = (EventRow(seq=seq, head=_head(event), raw=encode(event)) for seq, event in enumerate(events, start=1))
    return [CreateSession(key, now_s()), *(AddEvent(key, row) for row in rows)]


def _head(event: Event) -> EventHead:
    return EventHead(id=event.id, invocation_id=event.invocation_id, author=event.author, timestamp=event.timestamp)


def _event(author: str) -> Event:
    return Event(
        id=new_event_id(),
        invocation_id=new_invocation_id(),
        author=author,
        timestamp=now_s(),
        content=Content.of_text(SENTENCE, role=USER if author == USER else "model"),
    )


class LoadResult(msgspec.Struct, frozen=True):
    """Rate and latencies of turns in many sessions at once.

    Attributes:
        rate: turns a second.
        latencies_ms: of each turn.
    """

    rate: float
    latencies_ms: list[float]


async def run_load(turn: Callable[[int], Awaitable[object]], *, sessions: int, turns: int) -> LoadResult:
    """Run turns in many sessions at once, one after the other in each.

    Args:
        turn: runs a turn of the session with that number.
        turns: of all sessions together.
    """
    latencies_ms: list[float] = []

    async def talk(session: int) -> None:
        for _ in range(turns // sessions):
            began_s = time.perf_counter()
            await turn(session)
            latencies_ms.append((time.perf_counter() - began_s) * 1_000)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for session in range(sessions):
            group.create_task(talk(session))
    return LoadResult(len(latencies_ms) / (time.perf_counter() - began_s), latencies_ms)
