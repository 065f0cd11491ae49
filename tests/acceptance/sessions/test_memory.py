"""Memory: which entries are kept of a session, which users find them, and how agents use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import CallbackContext, Content, Event, LlmAgent, MemoryEntry, Part, load_memory
from actors.errors import InvalidIdError, NoMemoryError, SessionNotFoundError, StoreError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.stores.memory import SqlMemoryStore
from tests.support.agents.conversation_callbacks import recall_first
from tests.support.agents.conversation_tools import recall
from tests.support.inside import PAGE
from tests.support.runtimes import Deploy, run_turn, stored_state

pytestmark = pytest.mark.sampled(2, of="module")


def remembered(rt: Runtime, query: str, user_id: str = "ada") -> list[tuple[str, str, str]]:
    return [(each.session_id, each.author, each.text) for each in rt.memory.search(user_id, query)]


def answer(event: Event) -> dict[str, Any]:
    """What a tool has answered in the event."""
    return next(event.function_responses()).response


def root(*replies: object, **options: object) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(list(replies)), **options)  # type: ignore[arg-type]


def test_what_was_said_in_a_session_is_found_from_another_one(deploy: Deploy) -> None:
    with deploy(root("Noted: green tea.", "Hello.")) as rt:
        first = rt.run(user_id="ada", session_id="s1", message="I like green tea").result()
        run_turn(rt, "hi", session_id="s2")
        assert remembered(rt, "tea") == []
        rt.memory.add_session("ada", "s1")
        assert sorted(remembered(rt, "which TEA?")) == [("s1", "root", "Noted: green tea."), ("s1", "user", "I like green tea")]
        at_s = first.events[-1].timestamp
        assert rt.memory.search("ada", "noted") == [
            MemoryEntry(session_id="s1", author="root", timestamp=at_s, text="Noted: green tea.")
        ]
        assert remembered(rt, "coffee") == remembered(rt, "") == remembered(rt, '"*') == []


def test_nobody_finds_what_another_user_has_said(deploy: Deploy) -> None:
    with deploy(root("a", "b")) as rt:
        run_turn(rt, "adas tea", user_id="ada")
        run_turn(rt, "bobs tea", user_id="bob")
        rt.memory.add_session("ada", "s1")
        rt.memory.add_session("bob", "s1")
        assert remembered(rt, "tea", "ada") == [("s1", "user", "adas tea")]
        assert remembered(rt, "tea", "bob") == [("s1", "user", "bobs tea")]


def test_at_most_ten_are_found_and_the_best_comes_first(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        rt.sessions.create("ada", "s1")
        for place in range(14):
            text = "green tea at last" if place == 3 else f"tea number {place}"
            rt.sessions.append_event("ada", "s1", Event(author="user", content=Content.of_text(text)))
        rt.memory.add_session("ada", "s1")
        found = remembered(rt, "green tea")
        assert len(found) == 10
        assert found[0] == ("s1", "user", "green tea at last")


def test_a_session_that_is_added_again_is_remembered_as_it_is_now(deploy: Deploy) -> None:
    with deploy(root("one", "two")) as rt:
        run_turn(rt, "green tea")
        rt.memory.add_session("ada", "s1")
        second = rt.run(user_id="ada", session_id="s1", message="black tea").result()
        rt.memory.add_session("ada", "s1")
        assert [text for _, _, text in remembered(rt, "tea")] == ["black tea", "green tea"]
        rt.sessions.rewind("ada", "s1", second.invocation_id)
        rt.memory.add_session("ada", "s1")
        assert [text for _, _, text in remembered(rt, "tea two")] == ["green tea"]


def test_only_words_are_remembered_and_no_thoughts(deploy: Deploy) -> None:
    calls = {"parts": [{"thought": "secret tea"}, {"call": "recall", "args": {"query": "tea"}}]}
    with deploy(root(calls, {"parts": [{"thought": "hidden tea"}, "open tea"]}, tools=[recall])) as rt:
        run_turn(rt, Content(parts=[Part(text="my"), Part(text=" tea")]))
        rt.memory.add_session("ada", "s1")
        assert sorted(remembered(rt, "tea secret hidden")) == [("s1", "root", "open tea"), ("s1", "user", "my tea")]


def test_a_log_of_several_pages_is_remembered_to_its_end(tmp_path: Path) -> None:
    with Deploy("local", tmp_path)(root()) as rt:
        rt.sessions.create("ada", "s1")
        for place in range(PAGE + 1):
            rt.sessions.append_event("ada", "s1", Event(author="user", content=Content.of_text(f"word{place}")))
        rt.memory.add_session("ada", "s1")
        for word in ("word0", f"word{PAGE - 1}", f"word{PAGE}"):
            assert remembered(rt, word) == [("s1", "user", word)]


def test_memory_outlives_its_session_until_it_is_deleted_itself(deploy: Deploy) -> None:
    with deploy(root("ok")) as rt:
        run_turn(rt, "green tea")
        rt.memory.add_session("ada", "s1")
    with deploy(root()) as rt:
        rt.sessions.delete("ada", "s1")
        assert remembered(rt, "tea") == [("s1", "user", "green tea")]
        rt.memory.delete_session("ada", "s1")
        rt.memory.delete_session("ada", "s1")
        assert remembered(rt, "tea") == []


def test_a_session_that_is_not_there_cannot_be_remembered(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        with pytest.raises(SessionNotFoundError):
            rt.memory.add_session("ada", "s1")
        with pytest.raises(InvalidIdError):
            rt.memory.search("", "tea")
        assert rt.sessions.list() == []


async def test_memory_is_there_for_callers_on_an_event_loop(deploy: Deploy) -> None:
    async with deploy(root("ok")) as rt:
        await rt.run(user_id="ada", session_id="s1", message="green tea").aio.result()
        await rt.aio.memory.add_session("ada", "s1")
        assert [each.text for each in await rt.aio.memory.search("ada", "tea")] == ["green tea"]
        await rt.aio.memory.delete_session("ada", "s1")
        assert await rt.aio.memory.search("ada", "tea") == []


def test_tools_and_callbacks_search_the_memory_of_their_own_user(deploy: Deploy) -> None:
    model = ScriptedModel(["ok", "ok", {"call": "recall", "args": {"query": "tea"}}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[recall], before_model_callback=recall_first)) as rt:
        run_turn(rt, "green tea", user_id="ada")
        run_turn(rt, "black tea", user_id="bob")
        for user_id in ("ada", "bob"):
            rt.memory.add_session(user_id, "s1")
        events = run_turn(rt, "tea", session_id="s2")
        assert answer(events[1]) == {"result": ["user: green tea"]}
        assert stored_state(rt, "s2") == {"recalled": ["green tea"]}


def test_load_memory_gives_the_model_what_is_remembered_as_plain_data(deploy: Deploy) -> None:
    model = ScriptedModel(["ok", {"call": "load_memory", "args": {"query": "green tea"}}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[load_memory])) as rt:
        rt.sessions.create("ada", "old")
        for place, text in enumerate(("black tea", "green tea", "water")):
            rt.sessions.append_event("ada", "old", Event(author="user", timestamp=place + 0.5, content=Content.of_text(text)))
        run_turn(rt, "green tea", user_id="bob")
        rt.memory.add_session("ada", "old")
        rt.memory.add_session("bob", "s1")
        (declared,) = model.requests[0].tools
        assert (declared.parameters or {})["required"] == ["query"]
        events = run_turn(rt, "what do I like?")
        whence = {"author": "user", "session_id": "old"}
        assert answer(events[1]) == {
            "memories": [
                {**whence, "timestamp": "1970-01-01T00:00:01+00:00", "text": "green tea"},
                {**whence, "timestamp": "1970-01-01T00:00:00+00:00", "text": "black tea"},
            ]
        }


def test_without_a_memory_store_every_call_says_so(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "recall", "args": {"query": "tea"}}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[recall]), memory_store=None) as rt:
        events = run_turn(rt, "tea")
        assert "app 'test' has no memory" in answer(events[1])["error"]
        for call in (rt.memory.add_session, rt.memory.search, rt.memory.delete_session):
            with pytest.raises(NoMemoryError, match="app 'test' has no memory"):
                call("ada", "s1")


def test_memory_is_kept_where_the_runtime_is_told(deploy: Deploy, tmp_path: Path) -> None:
    for store in (f"sqlite:///{tmp_path}/given.db", SqlMemoryStore(f"sqlite:///{tmp_path}/held.db")):
        with deploy(root("ok"), memory_store=store) as rt:
            run_turn(rt, "green tea")
            rt.memory.add_session("ada", "s1")
            assert ("s1", "user", "green tea") in remembered(rt, "tea")
    with deploy(root()) as rt:
        assert remembered(rt, "tea") == []
    assert {path.name for path in tmp_path.glob("*.db")} == {"given.db", "held.db", "sessions.db", "sessions.memory.db"}


def test_a_memory_store_that_fails_stops_no_turn(deploy: Deploy, tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("this is no database, and it is long enough to be seen as none")
    with deploy(root("ok"), memory_store=f"sqlite:///{tmp_path}/broken.db") as rt:
        assert run_turn(rt, "hi")[-1].text == "ok"
        with pytest.raises(StoreError, match="memory store"):
            rt.memory.search("ada", "tea")


async def remember(callback_context: CallbackContext) -> None:
    await callback_context.add_session_to_memory()


def test_an_agent_remembers_its_session_when_it_is_done(deploy: Deploy) -> None:
    with deploy(root("I like tea, too.", "Rex!", after_agent_callback=remember)) as rt:
        run_turn(rt, "my dog is called Rex")
        assert sorted(remembered(rt, "dog tea")) == [("s1", "root", "I like tea, too."), ("s1", "user", "my dog is called Rex")]
        run_turn(rt, "my cat is called Tom")
        # In place of what was remembered before, and not beside it.
        assert sorted(text for _, _, text in remembered(rt, "dog cat")) == ["my cat is called Tom", "my dog is called Rex"]


def test_an_agent_of_an_app_without_memory_cannot_remember(local: Deploy) -> None:
    lonely = root("hi", after_agent_callback=remember)
    with local(lonely, memory_store=None) as rt, pytest.raises(NoMemoryError, match="has no memory"):
        run_turn(rt, "hi")
