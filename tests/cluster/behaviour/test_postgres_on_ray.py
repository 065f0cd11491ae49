"""A PostgreSQL that is restarted, or goes back to an older copy of its data, while turns run on Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from actors import LlmAgent, tool
from actors.messages.event import USER
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql import schema
from tests.acceptance.losses.test_older_replicas import REPLICA_S, OlderReplica
from tests.support.runtimes import Deploy
from tests.support.servers.postgres_server import PostgresServer

SESSIONS = 8
TURNS_BETWEEN = 4
"""Turns that each session has between two restarts, and at least as many during one."""


@tool
def look() -> str:
    """Look."""
    return "seen"


class Speaker:
    """Speaks in one session, turn after turn, until it is stopped."""

    def __init__(self, rt: Runtime, session_id: str) -> None:
        self._rt = rt
        self.session_id = session_id
        self.answered: list[str] = []
        self.is_stopped = False
        self._more = asyncio.Condition()

    async def speak(self) -> None:
        """Run turns."""
        while not self.is_stopped:
            turn = self._rt.run(user_id="ada", session_id=self.session_id, message=f"{len(self.answered)}: look")
            assert (await turn).text == "done"
            async with self._more:
                self.answered.append(turn.invocation_id)
                self._more.notify_all()

    async def has_spoken(self, times: int) -> None:
        """Wait until so many turns more have ended."""
        wanted = len(self.answered) + times
        async with self._more:
            await self._more.wait_for(lambda: len(self.answered) >= wanted)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("local_ray")
async def test_a_server_that_is_restarted_under_load_costs_no_turn(own_server: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        for table in schema.metadata.tables:
            connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
    model = PatternModel([("tool:", "done")], default={"call": "look"})
    deploy = Deploy("ray", tmp_path)
    root = LlmAgent(name="root", model=model, tools=[look])
    async with deploy(root, session_store=own_server.url, settings=Settings(session_shards=2, runners=2)) as rt:
        speakers = [Speaker(rt, f"s{number}") for number in range(SESSIONS)]
        async with asyncio.TaskGroup() as group:
            for speaker in speakers:
                group.create_task(speaker.speak())
            for mode in ("immediate", "fast", "immediate", "fast"):
                await asyncio.gather(*(speaker.has_spoken(TURNS_BETWEEN) for speaker in speakers))
                await asyncio.to_thread(own_server.stop, mode=mode)
                await asyncio.to_thread(own_server.start)
            await asyncio.gather(*(speaker.has_spoken(TURNS_BETWEEN) for speaker in speakers))
            for speaker in speakers:
                speaker.is_stopped = True
        for speaker in speakers:
            session = await rt.aio.sessions.get("ada", speaker.session_id)
            assert session is not None
            events = session.events
            assert [event.seq for event in events] == list(range(1, 4 * len(speaker.answered) + 1))
            assert [event.invocation_id for event in events] == [turn for turn in speaker.answered for _ in range(4)]
            assert [event.author for event in events] == [USER, "root", "root", "root"] * len(speaker.answered)
            assert [event.text for event in events[3::4]] == ["done"] * len(speaker.answered)


@pytest.mark.full
@pytest.mark.timeout(3 * REPLICA_S)
@pytest.mark.usefixtures("local_ray")
class TestOlderReplicaOnRay(OlderReplica):
    @pytest.fixture
    def deploy(self, tmp_path: Path) -> Deploy:
        return Deploy("ray", tmp_path)
