"""Several Session actors and Runners look like one app to programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors import Content, Flow, FunctionResponse, LlmAgent, LongRunningFunctionTool, Part, Paused, Task
from actors.errors import DefinitionError, SessionNotFoundError, TooLargeError, TurnCancelledError
from actors.layers.listing.messages import TurnCounts
from actors.messages.event import USER
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of
from actors.testing import PatternModel, ScriptedModel
from runtime.settings import Settings
from runtime.stores.memory import SqlMemoryStore
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.agents.conversation_tools import forever, put
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state
from tests.support.sharded_runtimes import RUNNERS, SHARDS, ShardedDeploy, one_session_per_shard
from tests.support.vectors.vector_agents import lro


@pytest.fixture
def sharded(server: str, tmp_path: Path) -> ShardedDeploy:
    return ShardedDeploy("local", tmp_path, server)


def desk() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([("hang", {"call": "forever"})], default="hello"), tools=[forever])


def test_each_session_is_served_by_its_own_and_statistics_tell_of_all(sharded: ShardedDeploy) -> None:
    with sharded(desk()) as rt:
        keys = [SessionKey("test", f"u{number % 5}", f"s{number}") for number in range(30)]
        turns = [rt.run(user_id=key.user, session_id=key.session, message="hi") for key in keys]
        assert {turn.result().text for turn in turns} == {"hello"}
        seen = rt.statistics()
        for kind, number, total in (("session", SHARDS, seen.session), ("runner", RUNNERS, seen.runner)):
            expected = Counter(shard_of(key, number) for key in keys)
            assert [part.counts["turns"] for part in total.parts] == [expected[each] for each in range(number)]
            assert [part.actor for part in total.parts] == [f"{kind}-{each}" for each in range(number)]
            assert (total.actor, total.counts["turns"], total.pid) == (kind, len(keys), 0)
        assert [agent.counts["runs"] for agent in seen.agents["root"].parts] == [
            part.counts["turns"] for part in seen.runner.parts
        ]
        assert seen.agents["root"].counts["runs"] == len(keys)


def test_sessions_are_listed_deleted_rewound_and_appended_to_wherever_they_are(sharded: ShardedDeploy) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    with sharded(desk()) as rt:
        rt.sessions.create("bob", "his", {"user:name": "Bob", "app:open": True})
        first = {session: rt.run(user_id="ada", session_id=session, message="hi").result().invocation_id for session in sessions}
        second = rt.run(user_id="ada", session_id=sessions[1], message="again", state_delta={"user:seen": 1, "own": 2}).result()
        assert rt.sessions.list("ada")[0].id == sessions[1]
        listed = {session.id: session.state for session in rt.sessions.list()}
        assert listed == {
            "his": {"user:name": "Bob", "app:open": True},
            sessions[0]: {"user:seen": 1, "app:open": True},
            sessions[1]: {"user:seen": 1, "app:open": True, "own": 2},
            sessions[2]: {"user:seen": 1, "app:open": True},
        }
        rt.sessions.rewind("ada", sessions[1], second.invocation_id)
        # State that sessions share is not restored: another session may have built on it.
        assert stored_state(rt, sessions[1]) == {"user:seen": 1, "app:open": True}
        assert author_texts(run_turn(rt, "hi", session_id=sessions[1])) == [("root", "hello")]
        for session, invocation_id in first.items():
            rt.sessions.rewind("ada", session, invocation_id)
            read = rt.sessions.get("ada", session)
            assert read is not None
            assert {event.author for event in read.events} == {USER}
        for session in sessions:
            rt.sessions.delete("ada", session)
            rt.sessions.delete("ada", session)
            with pytest.raises(SessionNotFoundError):
                rt.sessions.rewind("ada", session, "e-1")
        assert [session.id for session in rt.sessions.list()] == ["his"]


def test_turns_that_run_and_wait_are_counted_wherever_they_are(sharded: ShardedDeploy) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    with sharded(desk()) as rt:
        turns = [rt.run(user_id="ada", session_id=session, message=message) for session in sessions for message in ("hang", "hi")]
        wanted = TurnCounts(waiting=SHARDS, running=SHARDS, paused=0)
        while rt.turns.counts() != wanted:
            # Some of them have yet to begin or to enter the line.
            continue
        for turn in turns:
            turn.cancel()
        assert rt.turns.counts() == TurnCounts(waiting=0, running=0, paused=0)


def test_state_of_users_and_of_the_app_is_everywhere_as_it_was_written_last(sharded: ShardedDeploy) -> None:
    one, other, third = one_session_per_shard("test", "ada", SHARDS)
    writes = {"call": "put", "args": {"key": "app:k", "value": "by a tool"}}
    model = ScriptedModel(["ok", "ok", "ok", "ok", writes, "ok", "ok", "ok"])
    with sharded(LlmAgent(name="root", model=model, tools=[put], instruction="<{user:k?}|{app:k?}|{k?}>")) as rt:
        for session in (one, other, third):
            run_turn(rt, "hi", session_id=session)
        run_turn(rt, "hi", session_id=one, state_delta={"user:k": 1, "app:k": "x", "k": "own"})
        assert stored_state(rt, other) == {"user:k": 1, "app:k": "x"}
        run_turn(rt, "write", session_id=other)
        run_turn(rt, "hi", session_id=third, state_delta={"user:k": 2})
        for session in (one, other, third):
            expected: dict[str, Any] = {"user:k": 2, "app:k": "by a tool"}
            assert stored_state(rt, session) == {**expected, **({"k": "own"} if session == one else {})}
        for bob in one_session_per_shard("test", "bob", SHARDS):
            assert rt.sessions.create("bob", bob).state == {"app:k": "by a tool"}
        run_turn(rt, "hi", session_id=one)
        assert [request.system_instruction.partition(">")[0] for request in model.requests] == [
            *["<||"] * 3,
            "<1|x|own",
            "<1|x|",
            "<1|by a tool|",
            "<2|by a tool|",
            "<2|by a tool|own",
        ]


def test_the_limit_of_state_holds_for_what_all_have_written(sharded: ShardedDeploy) -> None:
    one, other, _ = one_session_per_shard("test", "ada", SHARDS)
    with sharded(desk(), settings=Settings(max_state_bytes=100_000)) as rt:
        run_turn(rt, "hi", session_id=other, state_delta={"user:a": "a"})
        run_turn(rt, "hi", session_id=one, state_delta={"user:b": "b" * 60_000})
        for session in (other, one):
            with pytest.raises(TooLargeError, match="user"):
                run_turn(rt, "hi", session_id=session, state_delta={"user:c": "c" * 60_000})
        assert set(stored_state(rt, other)) == {"user:a", "user:b"}


def test_a_driver_is_known_only_where_it_has_turns_and_nowhere_when_it_has_left(sharded: ShardedDeploy) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)

    def subscribers() -> list[int]:
        return [part.counts["subscribers"] for part in rt.statistics().session.parts]

    with sharded(desk()) as rt:
        assert subscribers() == [0, 0, 0]
        run_turn(rt, "hi", session_id=sessions[1])
        assert subscribers() == [0, 1, 0]
        hanging = rt.run(user_id="ada", session_id=sessions[2], message="hang")
        events = iter(hanging)
        call = next(events)
        attached = rt.attach(user_id="ada", session_id=sessions[2], invocation_id=hanging.invocation_id)
        following = iter(attached)
        assert next(following) == call
        assert subscribers() == [0, 1, 2]
        attached.cancel()
        for each in (events, following):
            with pytest.raises(TurnCancelledError):
                list(each)


def test_flows_and_answers_to_long_running_calls_go_where_their_sessions_are(sharded: ShardedDeploy) -> None:
    sessions = one_session_per_shard("test", "ada", SHARDS)
    model = PatternModel(
        [("^ask", {"call": "lro"}), ("tool:lro", "thanks")], default={"call": "succeed_t", "args": {"result": "42"}}
    )
    root = LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(lro)])
    with sharded(root) as rt:
        flows = [
            rt.run_flow(
                Flow(name="f", tasks=[Task(name="t", objective="Count.", agents=[root])]), user_id="ada", session_id=session
            )
            for session in sessions
        ]
        assert [flow.result().tasks["t"].result for flow in flows] == ["42"] * SHARDS
        paused = [rt.run(user_id="ada", session_id=session, message="ask").result() for session in sessions]
        for session, result in zip(sessions, paused, strict=True):
            assert isinstance(result.outcome, Paused)
            answer = Part(function_response=FunctionResponse(id=result.outcome.call_ids[0], name="lro", response={"r": 1}))
            answered = rt.run(user_id="ada", session_id=session, message=Content(parts=[answer]))
            assert (answered.result().text, answered.invocation_id) == ("thanks", result.invocation_id)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_stores_of_one_writer_are_refused_and_told_what_would_be_right(engine: str, tmp_path: Path) -> None:
    deploy = Deploy(engine, tmp_path)
    settings = Settings(session_shards=4)
    postgres = "postgresql://nobody@localhost/none"
    with pytest.raises(
        DefinitionError, match=r"session_shards=4 \(RAYGROVE_SESSION_SHARDS\).*session_store.*sqlite:///.*PostgreSQL"
    ):
        deploy(desk(), settings=settings)
    with pytest.raises(DefinitionError, match=r"memory_store.*'sqlite://' takes one"):
        deploy(desk(), settings=settings, session_store=postgres, memory_store="sqlite://")
    with pytest.raises(DefinitionError, match="SqlSessionStore without takes_many_writers"):
        deploy(desk(), settings=settings, session_store=SqlSessionStore("sqlite://"))
    deploy(desk(), settings=settings, session_store=SqlSessionStore(postgres), memory_store=None)
    deploy(desk(), settings=Settings(runners=4))


def test_several_runners_share_the_sessions_of_one_session_actor(tmp_path: Path) -> None:
    with Deploy("local", tmp_path)(desk(), settings=Settings(runners=3)) as rt:
        for session in one_session_per_shard("test", "ada", 3):
            assert author_texts(run_turn(rt, "hi", session_id=session)) == [("root", "hello")]
        seen = rt.statistics()
        assert (seen.session.parts, seen.session.counts["turns"]) == ((), 3)
        assert [part.counts["turns"] for part in seen.runner.parts] == [1, 1, 1]


def test_stores_that_are_given_as_objects_serve_several(sharded: ShardedDeploy) -> None:
    stores = {"session_store": SqlSessionStore(sharded.url), "memory_store": SqlMemoryStore(sharded.url)}
    with sharded(desk(), **stores) as rt:
        for session in one_session_per_shard("test", "ada", SHARDS):
            run_turn(rt, "hi", session_id=session, state_delta={"user:last": session})
            rt.memory.add_session("ada", session)
        assert len(rt.memory.search("ada", "hello")) == SHARDS
        assert {listed.state["user:last"] for listed in rt.sessions.list("ada")} == {session}
