"""All data of a user can be deleted, while others talk and while the user does."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors import LlmAgent, Part, ToolContext, tool
from actors.errors import InvalidIdError, TurnCancelledError
from actors.interfaces.stores import ArtifactStore, RemoveSession, Write
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.rules.checks.state import USER
from actors.testing import PatternModel
from runtime import Runtime
from runtime.engine.users import DeletedUser
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.runtimes import Deploy, run_turn
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard


@tool
def note(text: str, context: ToolContext) -> str:
    """Note something about the user."""
    context.state["note"] = text
    context.state["user:note"] = text
    return text


def noting() -> LlmAgent:
    patterns = [("note", {"call": "note", "args": {"text": "a guest was here"}})]
    return LlmAgent(name="root", model=PatternModel(patterns, default="ok"), tools=[note])


def talk(rt: Runtime, user: str, sessions: Sequence[str] = ("s1", "s2")) -> None:
    """Have a user leave something in every store."""
    for session in sessions:
        run_turn(rt, f"please note that {user} says hello", session, user)
        rt.artifacts.save(user, session, f"{user}.txt", Part(text=f"{user}'s file"))
        rt.memory.add_session(user, session)
    rt.artifacts.save(user, sessions[0], "user:profile.txt", Part(text=f"{user}'s profile"))


def left(rt: Runtime, user: str, sessions: Sequence[str] = ("s1", "s2")) -> dict[str, object]:
    """All that can be seen of a user."""
    found = [rt.sessions.get(user, session) for session in sessions]
    return {
        "sessions": [(each.id, [event.text for event in each.events], each.state) for each in found if each is not None],
        "listed": sorted(each.id for each in rt.sessions.list(user)),
        "artifacts": [rt.artifacts.list_keys(user, session) for session in sessions],
        "memory": sorted(entry.text for entry in rt.memory.search(user, "hello file profile here")),
    }


def nothing(sessions: Sequence[str] = ("s1", "s2")) -> dict[str, object]:
    return {"sessions": [], "listed": [], "artifacts": [[] for _ in sessions], "memory": []}


def test_everything_of_a_user_is_deleted_and_other_users_are_not_touched(deploy: Deploy) -> None:
    with deploy(noting()) as rt:
        for user in ("ada", "bob"):
            talk(rt, user)
        before = left(rt, "bob")
        deleted = rt.users.delete("ada")
        assert deleted == DeletedUser(sessions=2, events=8, state_keys=1, memories=4, artifacts=3)
        assert left(rt, "ada") == nothing()
        assert left(rt, "bob") == before
        assert rt.sessions.create("ada", "s3").state == {}
        run_turn(rt, "hello again", "s1", "ada")
        assert left(rt, "ada")["sessions"] == [("s1", ["hello again", "ok"], {})]
        assert rt.users.delete("ada") == DeletedUser(sessions=2, events=2, state_keys=0, memories=0, artifacts=0)
        assert rt.users.delete("ada") == DeletedUser(sessions=0, events=0, state_keys=0, memories=0, artifacts=0)
        with pytest.raises(InvalidIdError):
            rt.users.delete(" ")


def test_deleting_a_session_takes_its_artifacts_along_and_leaves_those_of_the_user(local: Deploy) -> None:
    with local(noting()) as rt:
        talk(rt, "ada")
        rt.sessions.delete("ada", "s1")
        assert rt.artifacts.list_keys("ada", "s1") == ["user:profile.txt"]
        assert rt.artifacts.list_keys("ada", "s2") == ["ada.txt", "user:profile.txt"]
        assert rt.artifacts.delete_session("ada", "s2") == 1
        assert rt.artifacts.list_keys("ada", "s2") == ["user:profile.txt"]


async def test_sessions_are_deleted_with_their_artifacts_and_users_as_a_whole_on_an_event_loop(local: Deploy) -> None:
    async with local(noting()) as rt:
        for session in ("s1", "s2"):
            await rt.run(user_id="ada", session_id=session, message="hi")
            await rt.aio.artifacts.save("ada", session, "a", Part(text="a"))
        await rt.aio.sessions.delete("ada", "s1")
        assert await rt.aio.artifacts.list_keys("ada", "s1") == []
        deleted = await rt.aio.users.delete("ada")
        assert deleted == DeletedUser(sessions=1, events=2, state_keys=0, memories=0, artifacts=1)


class Waiting:
    """A tree whose tool waits until it may go on."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            self.began.set()
            await self.may_end.wait()
            return "done"

        model = PatternModel([("wait", {"call": "wait"})], default="ok")
        self.root = LlmAgent(name="root", model=model, tools=[wait])


def test_a_turn_that_runs_is_cancelled_and_the_next_begins_afresh(local: Deploy) -> None:
    waiting = Waiting()
    with local(waiting.root) as rt:
        running = rt.run(user_id="ada", session_id="s1", message="wait", state_delta={"user:name": "Ada"})
        assert waiting.began.wait(60)
        assert rt.users.delete("ada").sessions == 1
        with pytest.raises(TurnCancelledError):
            running.result()
        run_turn(rt, "hello")
        session = rt.sessions.get("ada", "s1")
        assert session is not None
        assert ([event.text for event in session.events], session.state) == (["hello", "ok"], {})


class GatedStore(SqlSessionStore):
    """Removes sessions only when `may_remove` is set."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked, self.may_remove = threading.Event(), threading.Event()

    def commit(self, writes: Sequence[Write]) -> None:
        if any(isinstance(write, RemoveSession) for write in writes):
            self.asked.set()
            self.may_remove.wait(60)
        super().commit(writes)


async def test_what_comes_while_a_user_is_deleted_waits_and_finds_nothing(local: Deploy) -> None:
    store = GatedStore("sqlite://")
    async with local(noting(), session_store=store) as rt:
        await rt.run(user_id="ada", session_id="s1", message="note it")
        await rt.run(user_id="bob", session_id="s1", message="note it")
        deleting = asyncio.create_task(rt.aio.users.delete("ada"))
        assert await asyncio.to_thread(store.asked.wait, 60)
        answers = [rt.run(user_id="ada", session_id=session, message="hello") for session in ("s1", "s2")]
        making = asyncio.create_task(rt.aio.sessions.create("ada", "s3"))
        store.may_remove.set()
        assert (await deleting).sessions == 1
        assert [(await answer).text for answer in answers] == ["ok", "ok"]
        assert (await making).state == {}
        for session in ("s1", "s2"):
            found = await rt.aio.sessions.get("ada", session)
            assert found is not None
            assert ([event.text for event in found.events], found.state) == (["hello", "ok"], {})
        bobs = await rt.aio.sessions.get("bob", "s1")
        assert bobs is not None
        assert bobs.state["user:note"] == "a guest was here"


async def test_a_user_who_never_stops_talking_is_deleted_all_the_same(local: Deploy) -> None:
    async with local(noting()) as rt:
        spoken, talking = asyncio.Semaphore(0), True

        async def speak(user: str, number: int) -> None:
            while talking:
                try:
                    await rt.run(user_id=user, session_id=f"s{number}", message="note it")
                except TurnCancelledError:
                    continue
                spoken.release()

        speakers = [asyncio.create_task(speak(user, number)) for number in range(4) for user in ("ada", "bob")]
        for _ in range(3):
            for _ in range(16):
                await spoken.acquire()
            await rt.aio.users.delete("ada")
        talking = False
        await asyncio.gather(*speakers)
        deleted = await rt.aio.users.delete("ada")
        assert await rt.aio.sessions.list("ada") == []
        assert deleted.sessions <= 4
        for number in range(4):
            session = await rt.aio.sessions.get("bob", f"s{number}")
            assert session is not None
            assert [event.seq for event in session.events] == list(range(1, len(session.events) + 1))


def test_a_user_of_several_session_actors_is_deleted_in_all_of_them(server: str, tmp_path: Path) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    with ShardedDeploy("local", tmp_path, server)(noting()) as rt:
        for user in ("ada", "bob"):
            talk(rt, user, sessions)
        before = left(rt, "bob", sessions)
        deleted = rt.users.delete("ada")
        assert deleted == DeletedUser(sessions=SHARDS, events=4 * SHARDS, state_keys=1, memories=2 * SHARDS, artifacts=SHARDS + 1)
        assert left(rt, "ada", sessions) == nothing(sessions)
        assert left(rt, "bob", sessions) == before
        assert run_turn(rt, "hello", sessions[-1], "ada")


class OwnArtifacts(ArtifactStore):
    """Implements ArtifactStore in a mapping, without more methods than it needs."""

    def __init__(self) -> None:
        self.saved: dict[tuple[SessionKey, str], list[Part]] = {}

    def _at(self, key: SessionKey, filename: str) -> tuple[SessionKey, str]:
        return (SessionKey(key.app, key.user, "") if filename.startswith(USER) else key), filename

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        self.saved.setdefault(self._at(key, filename), []).append(part)
        return len(self.saved[self._at(key, filename)]) - 1

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        return self.saved[self._at(key, filename)][-1]

    def keys(self, key: SessionKey) -> list[str]:
        return sorted(name for at, name in self.saved if at in (key, SessionKey(key.app, key.user, "")))

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        return list(range(len(self.saved[self._at(key, filename)])))

    def delete(self, key: SessionKey, filename: str) -> None:
        self.saved.pop(self._at(key, filename), None)


def test_artifacts_in_a_store_of_one_s_own_are_deleted_one_by_one(local: Deploy) -> None:
    store = OwnArtifacts()
    with local(noting(), artifact_store=store) as rt:
        for user in ("ada", "bob"):
            talk(rt, user)
        rt.sessions.delete("ada", "s1")
        assert sorted(name for key, name in store.saved if key.user == "ada") == ["ada.txt", "user:profile.txt"]
        assert rt.users.delete("ada").artifacts == 2
        assert {key.user for key, _ in store.saved} == {"bob"}


def test_no_file_has_a_byte_of_a_deleted_user(local: Deploy, tmp_path: Path) -> None:
    """Overwritten state, rewound turns, deleted sessions, forgotten memory and what a crash would find in the logs included."""
    with local(noting()) as rt:
        for user in ("zqada", "bob"):
            talk(rt, user, [f"{user}-{number}" for number in range(3)])
            for number in range(30):
                delta = {
                    f"{user}{number % 3}": f"{user} says {number}" * (1 + 200 * (number % 5)),
                    "user:last": f"{user} {number}",
                }
                run_turn(rt, f"{user} says {number}", f"{user}-0", user, state_delta=delta, invocation_id=f"{user}-{number}")
                if number % 7 == 0:
                    rt.sessions.rewind(user, f"{user}-0", f"{user}-{number}")
            rt.memory.add_session(user, f"{user}-0")
            rt.memory.delete_session(user, f"{user}-1")
            rt.sessions.delete(user, f"{user}-2")
            rt.artifacts.save(user, "a session that never was", "a", Part(text=user))
        before = left(rt, "bob", [f"bob-{number}" for number in range(3)])
        owner = hashlib.sha256(encode(["test", "zqada"])).hexdigest()
        assert holding(tmp_path, b"zqada")
        assert holding(tmp_path, owner.encode())
        rt.users.delete("zqada")
        for trace in (b"zqada", owner.encode()):
            assert holding(tmp_path, trace) == []
        assert left(rt, "bob", [f"bob-{number}" for number in range(3)]) == before
    assert holding(tmp_path, b"zqada") == []


def holding(folder: Path, trace: bytes) -> list[str]:
    """The files that have a trace in their bytes or their names, in any case."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in found if trace in path.read_bytes().lower() or trace in str(path.relative_to(folder)).encode()]
