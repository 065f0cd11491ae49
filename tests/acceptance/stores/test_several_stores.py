"""A deployment with several stores is for programs what one with one store is, its list of stores may grow; and a store of one's
own, which overrides only what it must, says by name what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from actors import Content, FunctionResponse, LlmAgent, LongRunningFunctionTool, Part, Paused, RunConfig
from actors.errors import DefinitionError, RequestError, SessionNotFoundError, StoreError
from actors.layers.placing.messages import TakeStoreSeat
from actors.layers.placing.rules import home_of
from actors.messages.config import Budget
from actors.refs import SessionRef
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.several_stores import in_each_store, moved_home, store_files, users_at
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.plain_session_store import PlainStore
from tests.support.vectors.vector_agents import lro

STORES = 3


def desk() -> LlmAgent:
    model = PatternModel([("^ask", {"call": "lro"}), ("tool:lro", "thanks")], default="hello")
    return LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(lro)])


def told(rt: Runtime) -> dict[str, Any]:
    """What the services say of the turns and sessions of four users in each store, without times."""
    users = [user for store in range(STORES) for user in users_at(store, STORES, 4)]
    said: dict[str, Any] = {}
    for user in users:
        run_turn(rt, "hi", user_id=user, session_id="talk", invocation_id=f"hi-{user}", state_delta={"user:seen": user, "own": 1})
        asked = rt.run(user_id=user, session_id="asking", message="ask", invocation_id=f"ask-{user}").result()
        assert isinstance(asked.outcome, Paused)
    listed = rt.sessions.list()
    said["sessions"] = [(each.user_id, each.id, each.state) for each in listed]
    pages = [rt.sessions.list(limit=5)]
    while pages[-1]:
        pages.append(rt.sessions.list(limit=5, before=pages[-1][-1]))
    assert [each.id + each.user_id for page in pages for each in page] == [each.id + each.user_id for each in listed]
    turns = rt.turns.list(limit=100)
    said["turns"] = [(turn.user_id, turn.invocation_id, turn.state) for turn in turns]
    by_pages = rt.turns.list(limit=7)
    while len(by_pages) < len(turns):
        by_pages += rt.turns.list(limit=7, before=by_pages[-1])
    assert by_pages == turns
    said["paused"] = [turn.invocation_id for turn in rt.turns.list(state="paused", limit=5)]
    said["counts"] = rt.turns.counts()
    said["pending"] = [(call.user_id, call.invocation_id, call.name) for call in rt.pending(limit=10)]
    report = rt.usage(by="user")
    said["usage"] = (
        report.total.llm_calls,
        report.total.tool_calls,
        {user: sums.llm_calls for user, sums in report.groups.items()},
    )
    turns = rt.turns.list()
    said["usages"] = rt.usages(turns) == [rt.usage(turn.user_id, turn.session_id, turn.invocation_id) for turn in turns]
    said["costly"] = sorted(turn.invocation_id for turn in rt.usage(by="turn").turns)
    for user in users:
        call = rt.pending(user_id=user)[0]
        answer = Content(parts=[Part(function_response=FunctionResponse(id=call.call_id, name="lro", response={"r": 1}))])
        assert rt.run(user_id=user, session_id="asking", message=answer).result().text == "thanks"
        rt.memory.add_session(user, "talk")
    said["found"] = [len(rt.memory.search(user, "hello")) for user in users]
    rt.artifacts.save(users[0], "talk", "note.txt", Part(text="kept"))
    said["fork"] = [event.text for event in stored(rt, rt.sessions.fork(users[0], "talk", f"hi-{users[0]}").id, users[0])]
    rt.sessions.rewind(users[1], "talk", f"hi-{users[1]}")
    said["rewound"] = author_texts(stored(rt, "talk", users[1]))
    rt.sessions.delete(users[2], "talk")
    for number, user in enumerate((users[3], users[-1], users[5])):
        rt.schedules.create(f"daily-{number}", user_id=user, session_id="talk", message="hi", every=86_400)
    said["schedules"] = [(each.user_id, each.name) for each in rt.schedules.list()]
    said["forgotten"] = [rt.users.delete(user).sessions for user in (users[3], users[-1])]
    with pytest.raises(SessionNotFoundError):
        rt.sessions.rewind(users[-1], "talk", f"hi-{users[-1]}")
    said["schedules left"] = [(each.user_id, each.name) for each in rt.schedules.list()]
    said["archived"] = rt.sessions.archive(1_000)
    said["old"] = rt.sessions.prune(0.000_001, dry_run=True).sessions
    said["pruned"] = rt.sessions.prune(0.000_001).sessions
    said["left"] = [(each.user_id, each.id) for each in rt.sessions.list()]
    said["mapped"] = sorted(result.text for result in rt.map(["hi", "hi"]))
    said["batches"] = [(batch.id != "", len(rt.batches.items(batch.id))) for batch in rt.batches.list()]
    said["statistics"] = rt.statistics().session.counts["turns"]
    return said


def test_programs_see_of_several_stores_what_they_see_of_one(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(desk()) as rt:
        expected = told(rt)
    assert expected["pruned"] == expected["old"] > 10
    with deploy(desk(), session_store=store_files(tmp_path, STORES)) as rt:
        assert told(rt) == expected
        parts = rt.statistics().session.parts
        assert len(parts) == STORES
        assert min(part.counts["turns"] for part in parts) > 0


def test_users_stay_where_they_are_when_the_list_grows(deploy: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 3)
    # Each of them has another home after a store has joined.
    first, second = moved_home(0, 2), moved_home(0, 3)
    third = moved_home(1, 3, but=first)
    new = [f"new-{number}" for number in range(6)]
    everybody = [first, second, third, *new]
    with deploy(desk(), session_store=urls[0]) as rt:
        for user in everybody[:3]:
            run_turn(rt, "hi", user_id=user, state_delta={"user:since": "one"})
            rt.memory.add_session(user, "s1")
    for number in (2, 3):
        with deploy(desk(), session_store=urls[:number]) as rt:
            for user in everybody:
                run_turn(rt, "hi", user_id=user)
                paused = rt.run(user_id=user, session_id="asking", message="ask").result()
                followed = rt.attach(user_id=user, session_id="asking", invocation_id=paused.invocation_id)
                assert isinstance(followed.result().outcome, Paused)
            for user in everybody[:3]:
                assert len(stored(rt, "s1", user)) == 2 * number
                session = rt.sessions.get(user, "s1")
                assert session is not None
                assert session.state == {"user:since": "one"}
                assert len(rt.memory.search(user, "hello")) == 1
            assert {(each.user_id, each.id) for each in rt.sessions.list()} == {
                (user, session) for user in everybody for session in ("s1", "asking")
            }
            parts = rt.statistics().session.parts
    places = Counter({0: 3}) + Counter(home_of("test", user, 2) for user in new)
    assert [part.counts["turns"] for part in parts] == [2 * places[store] for store in range(3)]
    assert sorted(places) == [0, 1]


def test_a_program_that_knows_an_older_place_of_a_user_finds_the_user(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    user = moved_home(0, 2)
    with local(desk(), session_store=urls[0]) as rt:
        run_turn(rt, "hi", user_id=user)
    with local(desk(), session_store=urls) as rt:
        session: SessionRef = rt._client.engine.session
        for place in (1, 0, 1):
            session.note_store("test", user, place)
            assert author_texts(run_turn(rt, "hi", user_id=user)) == [("root", "hello")]
        assert len(stored(rt, "s1", user)) == 8


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_list_whose_growth_was_interrupted_grows_at_the_next_start(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    urls = store_files(tmp_path, 3)
    user = moved_home(0, 3)
    with local(desk(), session_store=urls[0]) as rt:
        run_turn(rt, "hi", user_id=user)
    ask = SessionRef.ask
    left = [None] * written

    async def interrupted(self: SessionRef, message: Any) -> Any:
        if isinstance(message, TakeStoreSeat):
            if not left:
                raise StoreError("the machine is lost")
            left.pop()
        return await ask(self, message)

    monkeypatch.setattr(SessionRef, "ask", interrupted)
    with pytest.raises(StoreError, match="the machine is lost"), local(desk(), session_store=urls):
        pass
    monkeypatch.undo()
    # The list is as it was, and so is where the user is.
    with local(desk(), session_store=urls[0]) as rt:
        assert len(run_turn(rt, "hi", user_id=user)) == 1
    with local(desk(), session_store=urls) as rt:
        run_turn(rt, "hi", user_id=user)
        assert len(stored(rt, "s1", user)) == 6


def other(urls: list[str]) -> list[str]:
    return [*urls[:2], urls[0].replace("store-0", "other")]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (lambda urls: urls[0], "store-0.db' is the first of 3 stores of app 'test', and 1 is named: name all of them"),
        (lambda urls: urls[:2], "is the first of 3 stores of app 'test', and 2 are named"),
        (lambda urls: [urls[1], urls[0], urls[2]], "store-1.db' is number 2 of the 3 stores .* and is named as number 1"),
        (lambda urls: urls[2], "store-2.db' is number 3 of the 3 stores"),
        (other, "other.db' is not number 3 of the 3 stores"),
    ],
)
def test_another_list_than_that_of_the_app_is_refused(
    local: Deploy, tmp_path: Path, named: Callable[[list[str]], Any], why: str
) -> None:
    urls = store_files(tmp_path, 3)
    with local(desk(), session_store=urls):
        pass
    with pytest.raises(StoreError, match=why), local(desk(), session_store=named(urls)):
        pass
    with local(desk(), session_store=urls):
        pass


def test_a_store_that_joins_has_nothing_of_the_app(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    for url in urls:
        with local(desk(), session_store=url) as rt:
            run_turn(rt, "hi")
    with pytest.raises(StoreError, match=r"store-1.db' has data of app 'test' and is not one of its stores"):
        local(desk(), session_store=urls).start()
    with local(desk(), session_store=urls, app_name="other") as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]


def test_two_names_of_one_database_are_refused(local: Deploy, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    (tmp_path / "link.db").symlink_to(file)
    named = [f"sqlite:///{file}", f"sqlite:///{tmp_path}/link.db"]
    with pytest.raises(StoreError, match="is number 1 of the 2 stores of app 'test', and is named as number 2"):
        local(desk(), session_store=named).start()


def test_state_of_the_app_goes_with_one_store(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 3)
    with local(desk(), session_store=urls[:2]) as rt:
        for user in in_each_store(2):
            with pytest.raises(RequestError, match="state 'app:k' cannot be set: the deployment has several stores"):
                rt.sessions.create(user, "s2", {"app:k": 1})
            with pytest.raises(RequestError, match="state 'app:k' cannot be set"):
                run_turn(rt, "hi", user_id=user, state_delta={"app:k": 1})
            assert rt.sessions.create(user, "s3", {"user:k": 1}).state == {"user:k": 1}
    with local(desk(), session_store=urls[2]) as rt:
        rt.sessions.create("ada", "s1", {"app:k": 1})
    with pytest.raises(StoreError, match=r"store-2.db' has state of app 'test' under app: keys"):
        local(desk(), session_store=[urls[2], f"sqlite:///{tmp_path}/new.db"]).start()


def test_what_goes_with_one_store_is_refused_where_there_are_several(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with pytest.raises(
        DefinitionError, match=r"daily_budget \(RAYGROVE_DAILY_BUDGET\) goes with one session store, and 2 are named"
    ):
        local(desk(), session_store=urls, settings=Settings(daily_budget=Budget(llm_calls=10)))
    with pytest.raises(DefinitionError, match="session_store names 2 stores, and memory_store 1: name one beside each"):
        local(desk(), session_store=urls, memory_store="sqlite://")
    with pytest.raises(DefinitionError, match=r"session_store names .*store-0.db' twice"):
        local(desk(), session_store=[urls[0], urls[0]])
    with pytest.raises(DefinitionError, match="session_store is an empty list"):
        local(desk(), session_store=[])
    with pytest.raises(DefinitionError, match="memory_store is a list, and session_store is none"):
        local(desk(), session_store=urls[0], memory_store=urls)
    with (
        local(desk(), session_store=urls) as rt,
        pytest.raises(RequestError, match="app_daily_budget goes with one session store"),
    ):
        run_turn(rt, "hi", run_config=RunConfig(app_daily_budget=Budget(llm_calls=10)))
    with local(
        desk(), session_store=store_files(tmp_path / "own", 1), settings=Settings(daily_budget=Budget(llm_calls=10))
    ) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="hello"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shards", [2, 1])
def test_users_of_two_databases_are_served_and_stay_where_they_are(server: str, tmp_path: Path, shards: int) -> None:
    deploy, urls = Deploy("local", tmp_path), [own_tables(server), own_tables(server)]
    settings = Settings(session_shards=shards)
    before = moved_home(0, 2)
    with deploy(root(), session_store=urls[0], settings=settings) as rt:
        for session in ("s1", "s2", "s3"):
            run_turn(rt, "hi", user_id=before, session_id=session, state_delta={"user:last": session})
    users = [before, users_at(0, 2)[0], next(user for user in users_at(1, 2, 2) if user != before)]
    with deploy(root(), session_store=urls, settings=settings) as rt:
        for user in users:
            for session in ("s1", "s2", "s3"):
                run_turn(rt, "hi", user_id=user, session_id=session)
                assert len(stored(rt, session, user)) == (4 if user == before else 2)
            rt.memory.add_session(user, "s1")
            assert len(rt.memory.search(user, "hello")) > 0
        assert len(rt.sessions.list()) == 3 * len(users)
        assert {session.state["user:last"] for session in rt.sessions.list(before)} == {"s3"}
        turns = [part.counts["turns"] for part in rt.statistics().session.parts]
        assert (sum(turns[:shards]), sum(turns[shards:])) == (6, 3)
    with pytest.raises(StoreError, match="is number 2 of the 2 stores"):
        deploy(root(), session_store=urls[::-1], settings=settings).start()


def test_a_user_is_moved_between_two_databases_and_to_sqlite(server: str, tmp_path: Path) -> None:
    urls = [own_tables(server), own_tables(server), f"sqlite:///{tmp_path}/third.db"]
    user = users_at(0, 3)[0]
    with Deploy("local", tmp_path)(root(), session_store=urls) as rt:
        for number in range(3):
            run_turn(rt, "hi", user_id=user, session_id=f"s{number}", state_delta={"user:n": number})
            rt.memory.add_session(user, f"s{number}")
        before = rt.sessions.list(user), [stored(rt, f"s{number}", user) for number in range(3)]
        for place in (1, 2, 0, 1):
            assert rt.users.move(user, urls[place]).rows > 12
            assert (rt.sessions.list(user), [stored(rt, f"s{number}", user) for number in range(3)]) == before
            assert len(rt.memory.search(user, "hello")) == 3
        run_turn(rt, "hi", user_id=user, session_id="s0", state_delta={"user:n": 7})
        assert {session.state["user:n"] for session in rt.sessions.list(user)} == {7}
        assert rt.users.delete(user).memories == 6


def test_users_are_moved_where_a_store_has_one_session_actor(server: str, tmp_path: Path) -> None:
    urls = [own_tables(server), own_tables(server)]
    with (
        Deploy("local", tmp_path)(root(), session_store=urls, settings=Settings(session_shards=2)) as rt,
        pytest.raises(RequestError, match="start the app with session_shards=1"),
    ):
        rt.users.move("ada", urls[1])


def greeter() -> LlmAgent:
    return LlmAgent(name="greeter", model=PatternModel([], default="hello"))


LACKS: list[tuple[Callable[[Runtime], Any], str]] = [
    (lambda rt: rt.sessions.archive(timedelta(days=1)), "has no archive: it has no method 'long_sessions'"),
    (lambda rt: rt.schedules.create("s", user_id="a", message="m", every=60), "keeps no schedules: it has no method 'schedule'"),
    (lambda rt: rt.batches.list(), "keeps no batches: it has no method 'batches'"),
    (lambda rt: rt.usage(), "reports no usage: it has no method 'usage'"),
]


def test_it_says_what_it_lacks_and_all_else_works(local: Deploy) -> None:
    with local(greeter(), session_store=PlainStore(), settings=Settings(record_requests="on")) as rt:
        for call, why in LACKS:
            with pytest.raises(StoreError, match=f"PlainStore {why}"):
                call(rt)
        run_turn(rt, "hi")
        assert [result.text for result in rt.map(["a", "b"])] == ["hello", "hello"]
        (turn,) = rt.turns.list("ada", "s1")
        assert rt.turns.requests("ada", "s1", turn.invocation_id) == []
        assert [version.state for version in rt.versions()] == ["current"]
        assert rt.schedules.list() == []
        assert rt.users.delete("ada").sessions == 1


def test_it_is_not_one_of_several(local: Deploy) -> None:
    with pytest.raises(StoreError, match="PlainStore cannot be one of several stores: it has no method 'users'"):
        local(greeter(), session_store=[PlainStore(), PlainStore()], memory_store=None).start()
