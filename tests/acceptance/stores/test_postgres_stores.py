"""Two stores on PostgreSQL: a deployment of both, with several Session actors for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import RequestError, StoreError
from actors.testing import PatternModel
from runtime import Settings
from tests.support.placing.several import moved_home, users_at
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.sharded_runtimes import own_tables


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
