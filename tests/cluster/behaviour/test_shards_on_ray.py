"""Several Session actors and Runners on Ray: their names, programs that join, and turns whose actors are lost."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors import Event, LlmAgent
from actors.errors import DeploymentExistsError, DeploymentNotFoundError
from actors.messages.protocol.statistics import Statistics
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of
from actors.testing import PatternModel
from runtime.cluster.transport.ray_actors import list_named_actors
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.sharded_runtimes import RUNNERS, SHARDS, ShardedDeploy, one_session_per_shard

APP = "sharded"
SESSIONS = one_session_per_shard(APP, "ada", SHARDS) + [f"another-{number}" for number in range(3)]


class LockedDoor:
    """A sync tool, `wait`, that blocks its thread while the test holds the door."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "door"
        self.path.touch()

    def wait(self) -> str:
        """Wait at the door."""
        with self.path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
        return "open"

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@pytest.fixture
def door(tmp_path: Path) -> LockedDoor:
    return LockedDoor(tmp_path)


@pytest.fixture
def deploy(local_ray: str, server: str, tmp_path: Path) -> Deploy:
    return ShardedDeploy("ray", tmp_path, server)


def guard(door: LockedDoor) -> LlmAgent:
    model = PatternModel([("wait", {"call": "wait"}), ("tool:", "let in")], default="hello")
    return LlmAgent(name="root", model=model, tools=[door.wait])


def held_up(rt: Runtime) -> dict[str, Iterator[Event]]:
    """One turn in each session, waiting at the door; returns their further events."""
    events = {session: iter(rt.run(user_id="ada", session_id=session, message="wait")) for session in SESSIONS}
    for each in events.values():
        assert any(next(each).function_calls())
    return events


@pytest.mark.full
def test_several_of_each_run_turns_are_lost_are_joined_and_are_stopped(deploy: Deploy, door: LockedDoor) -> None:
    with deploy(guard(door), app_name=APP, detached=True) as rt:
        all_run_turns(rt)
        turns_survive_losses(rt, door)
        before = rt.statistics()
    with Runtime.connect(APP) as joined:
        for session in SESSIONS:
            assert author_texts(run_turn(joined, "hi", session_id=session)) == [("root", "hello")]
        found = joined.statistics()
        assert pids(found.session) == pids(before.session)
        assert pids(found.runner) == pids(before.runner)
        with pytest.raises(DeploymentNotFoundError, match=f"Apps that are: .*{APP}"):
            Runtime.connect("shardet").start()
        # With another number of actors it is the same app all the same.
        for settings in (Settings(), Settings(runners=RUNNERS)):
            with pytest.raises(DeploymentExistsError):
                Deploy("ray", deploy.folder)(guard(door), app_name=APP, settings=settings).start()
        with Runtime.connect(APP) as third:
            third.shutdown()
        with pytest.raises(DeploymentNotFoundError):
            run_turn(joined, "hi")
    assert [name for _, name in list_named_actors() if name.startswith(APP)] == []
    everybody = pids(found.session) + pids(found.runner) + pids(found.agents["root"])
    assert [pid for pid in everybody if Path(f"/proc/{pid}").exists()] == []


def pids(statistics: Statistics) -> list[int]:
    return [part.pid for part in statistics.parts]


def all_run_turns(rt: Runtime) -> None:
    for session in SESSIONS:
        assert author_texts(run_turn(rt, "hi", session_id=session)) == [("root", "hello")]
    seen = rt.statistics()
    parts = [*seen.session.parts, *seen.runner.parts]
    assert [part.actor for part in parts] == [
        *(f"{APP}/session-{number}" for number in range(SHARDS)),
        *(f"{APP}/runner-{number}" for number in range(RUNNERS)),
    ]
    assert len({part.actor for part in seen.agents["root"].parts}) == RUNNERS
    assert len({part.pid for part in parts}) == len(parts)
    assert all(part.counts["turns"] for part in (*seen.session.parts, *seen.runner.parts))


def turns_survive_losses(rt: Runtime, door: LockedDoor) -> None:
    before = rt.statistics()
    with door.held():
        events = held_up(rt)
        for lost in (before.runner.parts[0], before.session.parts[1]):
            os.kill(lost.pid, signal.SIGKILL)
    for session, behind in events.items():
        assert author_texts(list(behind))[-1] == ("root", "let in"), session
    after = rt.statistics()
    for lost_one, were, are in (
        (1, pids(before.session), pids(after.session)),
        (0, pids(before.runner), pids(after.runner)),
    ):
        assert [index for index, (one, other) in enumerate(zip(were, are, strict=True)) if one != other] == [lost_one]
    of_first = sum(not shard_of(SessionKey(APP, "ada", session), RUNNERS) for session in SESSIONS)
    again, other = after.runner.parts
    # It has taken up no turns but its own. Their agents may have outlived it for long enough to end them.
    assert again.counts["turns"] <= of_first
    assert other.counts["turns"] == 2 * (len(SESSIONS) - of_first)
    for session in SESSIONS:
        log = rt.sessions.get("ada", session)
        assert log is not None
        assert [event.seq for event in log.events] == list(range(1, 7))
