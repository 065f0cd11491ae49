"""No user sees another user's data, by any API and with any guessed id.

Bob is the victim. Ada knows all his ids: of his session, his turns and his calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import Content, Event, FunctionResponse, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext, tool
from actors.errors import InvocationNotFoundError, RaygroveError, SessionNotFoundError, UnknownFunctionCallError
from actors.messages.codec import encode
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.agents.hostile_code import answer
from tests.support.runtimes import Deploy, author_texts, run_turn

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
