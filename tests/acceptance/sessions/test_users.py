"""Users: none sees another one's data, by any API, and all data of one can be deleted."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import Content, Event, FunctionResponse, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext, tool
from actors.errors import (
    InvalidIdError,
    InvocationNotFoundError,
    RaygroveError,
    SessionNotFoundError,
    TurnCancelledError,
    UnknownFunctionCallError,
)
from actors.interfaces.stores import ArtifactStore, RemoveSession, Write
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.rules.checks.state import USER
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.engine.users import DeletedUser
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.agents.hostile_code import answer
from tests.support.runtimes import Deploy, author_texts, run_turn
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


SECRET = "swordfish"


@tool
async def keep(secret: str, context: ToolContext) -> str:
    """Keep a secret wherever one can be kept."""
    for key in ("secret", "user:secret", "temp:secret"):
        context.state[key] = secret
    for name in ("secret.txt", "user:secret.txt"):
        await context.save_artifact(name, Part(text=secret))
    return "kept"


@tool
async def tell_all(context: ToolContext) -> dict[str, Any]:
    """Tell everything that can be seen from here."""
    names = ("secret.txt", "user:secret.txt", "../bob/secret.txt", "../../bob/shared/user:secret.txt")
    return {
        "state": dict(context.state),
        "artifacts": await context.list_artifacts(),
        "loaded": [str(await context.load_artifact(name)) for name in names],
        "memory": [entry.text for entry in await context.search_memory(SECRET)],
    }


@tool(long_running=True)
def ask_bob() -> None:
    """Wait for an answer of the user."""


def keeper() -> LlmAgent:
    replies: list[tuple[str, Any]] = [
        ("keep", {"call": "keep", "args": {"secret": SECRET}}),
        ("tell", {"call": "tell_all"}),
        ("ask", {"call": "ask_bob"}),
    ]
    model = PatternModel(replies, default="hello")
    instruction = "Known: {user:secret?} {secret?} {artifact.secret.txt?}"
    return LlmAgent(name="root", model=model, instruction=instruction, tools=[keep, tell_all, ask_bob])


def reply(call_id: str) -> Content:
    response = FunctionResponse(id=call_id, name="ask_bob", response={"answer": "mine"})
    return Content(parts=[Part(function_response=response)])


def everything(rt: Runtime, user_id: str) -> str:
    """All that the APIs tell a user, in words."""
    artifacts = [rt.artifacts.load(user_id, "s1", name) for name in ("secret.txt", "user:secret.txt")]
    sessions = [rt.sessions.get(user_id, each.id) for each in rt.sessions.list(user_id)]
    seen = (
        rt.sessions.list(user_id),
        sessions,
        rt.artifacts.list_keys(user_id, "s1"),
        artifacts,
        rt.memory.search(user_id, SECRET),
    )
    # Encoded, for what is shown of a value is cut to a length for people.
    return encode(seen).decode("latin-1")


def test_no_api_tells_a_user_anything_of_another(deploy: Deploy) -> None:
    with deploy(keeper()) as rt:
        run_turn(rt, f"keep {SECRET}", user_id="bob", invocation_id="e-bob")
        asked = rt.run(user_id="bob", session_id="s1", message="ask", invocation_id="e-ask").result()
        (call,) = (each for event in asked.events for each in event.function_calls())
        assert call.id
        rt.memory.add_session("bob", "s1")
        before = everything(rt, "bob")
        assert before.count(SECRET) > 8
        nobody = everything(rt, "ada")

        # As long as Ada has no session of that name, there is none.
        assert rt.sessions.get("ada", "s1") is None
        rt.sessions.delete("ada", "s1")
        for refused in (
            lambda: rt.sessions.rewind("ada", "s1", "e-bob"),
            lambda: rt.sessions.append_event("ada", "s1", Event(author="root", content=Content.of_text("x"))),
            lambda: rt.memory.add_session("ada", "s1"),
            lambda: rt.attach(user_id="ada", session_id="s1", invocation_id="e-bob").result(),
            lambda: run_turn(rt, "hi", user_id="ada", auto_create_session=False),
        ):
            with pytest.raises(SessionNotFoundError):
                refused()
        with pytest.raises(UnknownFunctionCallError):
            run_turn(rt, reply(call.id), user_id="ada")
        assert everything(rt, "ada") == nobody

        # Nor does one of her own lead to his.
        for invocation_id in ("e-bob", "e-ask"):
            events = run_turn(rt, "hi", user_id="ada", invocation_id=invocation_id)
            assert author_texts(events) == [("root", "hello")]
        rt.sessions.rewind("ada", "s1", "e-ask")
        rt.sessions.delete("ada", "s1")
        run_turn(rt, "hi", user_id="ada")
        for refused in (
            lambda: rt.sessions.rewind("ada", "s1", "e-bob"),
            lambda: rt.attach(user_id="ada", session_id="s1", invocation_id="e-bob").result(),
            lambda: rt.attach(user_id="ada", session_id="s1", invocation_id="e-ask", after_seq=1).result(),
        ):
            with pytest.raises(InvocationNotFoundError):
                refused()
        with pytest.raises(UnknownFunctionCallError):
            run_turn(rt, reply(call.id), user_id="ada")
        rt.attach(user_id="ada", session_id="s1", invocation_id="e-ask").cancel()
        for name in ("secret.txt", "user:secret.txt"):
            assert rt.artifacts.load("ada", "s1", name) is rt.artifacts.load("ada", "s1", name, 0) is None
            assert rt.artifacts.list_versions("ada", "s1", name) == []
            rt.artifacts.delete("ada", "s1", name)
        rt.memory.delete_session("ada", "s1")
        rt.memory.add_session("ada", "s1")
        shown = [each.response for event in run_turn(rt, "tell", user_id="ada") for each in event.function_responses()]
        assert shown == [{"state": {}, "artifacts": [], "loaded": ["None"] * 4, "memory": []}]
        assert SECRET not in everything(rt, "ada")

        # And Bob has lost nothing.
        assert everything(rt, "bob") == before
        assert rt.artifacts.list_versions("bob", "s1", "secret.txt") == [0]
        assert author_texts(run_turn(rt, reply(call.id), user_id="bob"))[-1][0] == "root"


class WaitingForBob:
    """A model that answers at once, but for Bob, whose turn waits for `go_on`."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Wait if the request is of one of Bob's turns."""
        if "bob" in request.contents[-1].text:
            self.asked.set()
            await self.go_on.wait()
        yield answer(f"hello {request.contents[-1].text}")


async def test_a_turn_that_runs_is_out_of_reach_of_others(local: Deploy) -> None:
    model = WaitingForBob()
    with local(LlmAgent(name="root", model=model)) as rt:
        bobs = rt.run(user_id="bob", session_id="s1", message="bob", invocation_id="e-1")
        await rt._client.run_async(model.asked.wait())
        with pytest.raises(SessionNotFoundError):
            await rt.attach(user_id="ada", session_id="s1", invocation_id="e-1")
        # The same ids at the same time: neither waits for the other, nor joins him.
        adas = rt.run(user_id="ada", session_id="s1", message="ada", invocation_id="e-1")
        assert (await adas).text == "hello ada"
        await adas.aio.cancel()
        await rt.attach(user_id="ada", session_id="s1", invocation_id="e-1").aio.cancel()
        rt.sessions.delete("ada", "s1")
        await rt._client.run_async(_set(model.go_on))
        assert (await bobs).text == "hello bob"


async def _set(event: asyncio.Event) -> None:
    event.set()


PAIRS = [
    (("a/b", "c"), ("a", "b/c")),
    (("a", "sessions/s1"), ("a/sessions", "s1")),
    (("a%2Fb", "c"), ("a/b", "c")),
    (("Ada", "s1"), ("ada", "s1")),
    (("é", "s1"), ("e\u0301", "s1")),
    (("a", "s"), ("a\u200d", "s")),
    (("%", "s"), ("_", "s")),
    (("x" * 256, "s"), ("x" * 255 + "y", "s")),
    (("a", "' OR '1'='1"), ("' OR '1'='1", "a")),
    (("\uff41", "s"), ("a", "s")),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("bob", "ada"), PAIRS)
def test_ids_that_look_alike_are_those_of_two_users(local: Deploy, bob: tuple[str, str], ada: tuple[str, str]) -> None:
    with local(keeper()) as rt:
        run_turn(rt, f"keep {SECRET}", user_id=bob[0], session_id=bob[1])
        rt.memory.add_session(*bob)
        for session_id in (ada[1], bob[1]) if ada[0] != bob[0] else (ada[1],):
            assert rt.sessions.get(ada[0], session_id) is None
            assert rt.artifacts.list_keys(ada[0], session_id) == []
        assert (rt.sessions.list(ada[0]), rt.memory.search(ada[0], SECRET)) == ([], [])
        assert rt.sessions.create(*ada).state == {}
        for name in ("secret.txt", "user:secret.txt"):
            rt.artifacts.delete(*ada, name)
        rt.memory.delete_session(*ada)
        rt.sessions.delete(*ada)
        assert rt.artifacts.list_keys(*bob) == ["secret.txt", "user:secret.txt"]
        assert rt.memory.search(bob[0], SECRET)
        assert rt.sessions.get(*bob) is not None


def test_two_apps_in_one_store_see_nothing_of_each_other(local: Deploy) -> None:
    with local(keeper()) as rt:
        run_turn(rt, f"keep {SECRET}", state_delta={"app:secret": SECRET}, invocation_id="e-1")
        rt.memory.add_session("ada", "s1")
    with local(keeper(), app_name="other") as rt:
        assert SECRET not in everything(rt, "ada")
        with pytest.raises(RaygroveError):
            rt.attach(user_id="ada", session_id="s1", invocation_id="e-1").result()
        assert rt.sessions.create("ada", "s1").state == {}
        assert rt.sessions.list() == rt.sessions.list("ada")
        assert len(rt.sessions.list()) == 1
