"""Several Session actors and several Runners: who uses the app sees one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors import SessionNotFoundError
from actors.messages.event import USER
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of
from actors.testing import PatternModel
from runtime import Runtime
from tests.acceptance.props import forever, put
from tests.helpers import say, told
from tests.sharded import RUNNERS, SHARDS, ShardedDeploy, one_on_each


@pytest.fixture
def sharded(server: str, tmp_path: Path) -> ShardedDeploy:
    return ShardedDeploy("local", tmp_path, server)


def desk() -> LlmAgent:
    model = PatternModel(
        [
            ("hang", {"call": "forever"}),
            (r"app (?=1)", {"call": "put", "args": {"key": "app:k", "value": 1}}),
            ("ask", {"transfer": "asker"}),
            ("tool:", "done"),
        ],
        default="hello",
    )
    return LlmAgent(name="root", model=model, tools=[forever, put])


def state(rt: Runtime, session_id: str, user_id: str = "ada") -> dict[str, Any]:
    session = rt.sessions.get(user_id, session_id)
    assert session is not None
    return session.state


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
    sessions = one_on_each("test", "ada", SHARDS)
    with sharded(desk()) as rt:
        rt.sessions.create("bob", "his", {"user:name": "Bob", "app:open": True})
        first = {session: rt.run(user_id="ada", session_id=session, message="hi").result().invocation_id for session in sessions}
        second = rt.run(user_id="ada", session_id=sessions[1], message="again", state_delta={"user:seen": 1, "own": 2}).result()
        assert [session.id for session in rt.sessions.list("ada")][0] == sessions[1]
        listed = {session.id: session.state for session in rt.sessions.list()}
        assert listed == {
            "his": {"user:name": "Bob", "app:open": True},
            sessions[0]: {"user:seen": 1, "app:open": True},
            sessions[1]: {"user:seen": 1, "app:open": True, "own": 2},
            sessions[2]: {"user:seen": 1, "app:open": True},
        }
        rt.sessions.rewind("ada", sessions[1], second.invocation_id)
        # State that sessions share is not restored: another session may have built on it.
        assert state(rt, sessions[1]) == {"user:seen": 1, "app:open": True}
        assert told(say(rt, "hi", session_id=sessions[1])) == [("root", "hello")]
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


def test_state_of_users_and_of_the_app_is_everywhere_as_it_was_written_last(sharded: ShardedDeploy) -> None:
    one, other, third = one_on_each("test", "ada", SHARDS)
    seen = LlmAgent(
        name="root",
        model=PatternModel([("write", {"call": "put", "args": {"key": "app:k", "value": "by a tool"}}), ("tool:", "done")], "ok"),
        tools=[put],
        instruction="<{user:k?}|{app:k?}|{k?}>",
    )
    with sharded(seen) as rt:
        for session in (one, other, third):
            say(rt, "hi", session_id=session)
        say(rt, "hi", session_id=one, state_delta={"user:k": 1, "app:k": "x", "k": "own"})
        assert state(rt, other) == {"user:k": 1, "app:k": "x"}
        say(rt, "write", session_id=other)
        say(rt, "hi", session_id=third, state_delta={"user:k": 2})
        for session in (one, other, third):
            expected: dict[str, Any] = {"user:k": 2, "app:k": "by a tool"}
            assert state(rt, session) == {**expected, **({"k": "own"} if session == one else {})}
        for bob in one_on_each("test", "bob", SHARDS):
            say(rt, "hi", session_id=bob, user_id="bob")
            assert state(rt, bob, "bob") == {"app:k": "by a tool"}
        assert rt.sessions.create("carl", "new").state == {"app:k": "by a tool"}
