"""A PostgreSQL whose data become those of an older copy while an app runs, as at a fail-over to a replica that lags."""

from __future__ import annotations

import psycopg
import pytest

from actors import LlmAgent, tool
from actors.errors import EventsLostError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.postgres_server import PostgresServer
from tests.support.sharded_runtimes import own_tables

REPLICA_S = 120
"""Starting and stopping a server takes its time on a busy machine."""

pytestmark = pytest.mark.timeout(3 * REPLICA_S)


def root(server: PostgresServer | None = None) -> LlmAgent:
    @tool
    def fail_over() -> str:
        """Have the server go back."""
        assert server is not None
        server.go_back()
        return "done"

    model = PatternModel([("tool:", "ok"), ("fail over", {"call": "fail_over"})], default="ok")
    return LlmAgent(name="root", model=model, tools=[fail_over] if server is not None else [])


def positions(rt: Runtime, session_id: str) -> list[int]:
    session = rt.sessions.get(user_id="ada", session_id=session_id)
    assert session is not None
    return [event.seq for event in session.events]


def holes(url: str) -> list[tuple[int, int, int]]:
    """Sessions whose logs do not count from 1 to their length, with both."""
    with psycopg.connect(url) as connection:
        query = "SELECT sid, count(*), max(seq) FROM raygrove_events GROUP BY sid HAVING count(*) <> max(seq)"
        return [(sid, count, last) for sid, count, last in connection.execute(query)]


class OlderReplica:
    """The behaviour of an engine: subclasses have the fixture `deploy`."""

    def test_each_session_says_once_what_is_gone_and_goes_on(self, own_server: PostgresServer, deploy: Deploy) -> None:
        url = own_tables(own_server.url)
        with deploy(root(), session_store=url) as rt:
            for session_id in ("s1", "s2", "quiet"):
                run_turn(rt, "hi", session_id)
            own_server.keep()
            for session_id in ("s1", "s1", "s2", "new"):
                run_turn(rt, "hi", session_id)
            own_server.go_back()
            run_turn(rt, "hi", "quiet")
            for session_id, gone in [("s1", "events 3 to 6"), ("s2", "events 3 to 4"), ("new", "all that was stored of it")]:
                with pytest.raises(EventsLostError, match=f"{session_id!r} has lost .*{gone}"):
                    run_turn(rt, "hi", session_id)
                run_turn(rt, "hi", session_id)
            assert {name: positions(rt, name) for name in ("s1", "s2", "quiet", "new")} == {
                "s1": [1, 2, 3, 4],
                "s2": [1, 2, 3, 4],
                "quiet": [1, 2, 3, 4],
                "new": [1, 2],
            }
            assert holes(url) == []
        with deploy(root(), session_store=url) as rt:
            run_turn(rt, "hi", "s1")
            assert positions(rt, "s1") == [1, 2, 3, 4, 5, 6]


class TestOlderReplica(OlderReplica):
    @pytest.fixture
    def deploy(self, local: Deploy) -> Deploy:
        return local


def test_a_turn_that_runs_at_the_time_fails_and_does_not_run_again(own_server: PostgresServer, local: Deploy) -> None:
    url = own_tables(own_server.url)
    with local(root(own_server), session_store=url) as rt:
        run_turn(rt, "hi")
        own_server.keep()
        turn = rt.run(user_id="ada", session_id="s1", message="fail over")
        with pytest.raises(EventsLostError, match="events 3 to 4"):
            turn.result()
        run_turn(rt, "hi")
        assert (positions(rt, "s1"), holes(url)) == ([1, 2, 3, 4], [])
        assert [each.state for each in rt.turns.list()] == ["finished", "finished"]
