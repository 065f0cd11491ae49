"""A store has one live owner: no program on either engine opens what a deployment on Ray owns, whatever becomes of its actors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import StoreInUseError, StoreUnavailableError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.sharded_runtimes import ShardedDeploy

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.sampled(3, of="module")]

OWNING = """
import sys
from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime

with Runtime(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="test", engine="local",
             session_store=sys.argv[1]):
    print("owns it", flush=True)
    sys.stdin.read()
"""


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="here I am"))


@pytest.fixture
def detached(local_ray: str, tmp_path: Path) -> Iterator[Runtime]:
    """A deployment on Ray that goes on, over the store of the test."""
    with Deploy("ray", tmp_path)(root(), detached=True) as rt:
        yield rt
        rt.shutdown()


def test_neither_engine_opens_what_a_deployment_owns_and_both_are_told_how_to_join_it(
    detached: Runtime, local_ray: str, tmp_path: Path
) -> None:
    run_turn(detached, "one")
    elsewhere = Settings(namespace=f"{Settings().namespace}-other")
    for second in (Deploy("local", tmp_path)(root()), Deploy("ray", tmp_path)(root(), settings=elsewhere)):
        with pytest.raises(StoreInUseError) as caught:
            second.start()
        assert f"Runtime.connect('test', address='{local_ray}')" in str(caught.value)
    with Runtime.connect("test") as joined:
        assert author_texts(run_turn(joined, "two")) == [("root", "here I am")]


def test_a_lost_session_actor_has_its_place_again_and_no_other_program_gets_it_meanwhile(
    detached: Runtime, tmp_path: Path
) -> None:
    run_turn(detached, "one")
    os.kill(detached.statistics().session.pid, signal.SIGKILL)
    # Either it is waited for, until it has its place again, or it has it already.
    with pytest.raises((StoreInUseError, StoreUnavailableError)):
        Deploy("local", tmp_path)(root(), settings=Settings(store_timeout_s=0.5)).start()
    assert author_texts(run_turn(detached, "two")) == [("root", "here I am")]
    with pytest.raises(StoreInUseError):
        Deploy("local", tmp_path)(root()).start()


def test_a_deployment_that_has_ended_leaves_its_store_at_once(tmp_path: Path) -> None:
    for engine in ("ray", "local", "ray"):
        with Deploy(engine, tmp_path)(root()) as rt:
            run_turn(rt, "one")


def test_session_actors_of_one_deployment_share_their_store(tmp_path: Path, server: str) -> None:
    deploy = ShardedDeploy("ray", tmp_path, server)
    with deploy(root()) as rt:
        for number in range(4):
            run_turn(rt, "one", session_id=f"s{number}")
        os.kill(rt.statistics().session.pid or _first_pid(rt), signal.SIGKILL)
        with pytest.raises((StoreInUseError, StoreUnavailableError)):
            Deploy("local", tmp_path)(root(), session_store=deploy.url, settings=Settings(store_timeout_s=0.5)).start()
        for number in range(4):
            assert author_texts(run_turn(rt, "two", session_id=f"s{number}")) == [("root", "here I am")]
    with Deploy("local", tmp_path)(root(), session_store=deploy.url) as rt:
        run_turn(rt, "three")


def _first_pid(rt: Runtime) -> int:
    return rt.statistics().session.parts[0].pid


def test_a_local_program_that_was_killed_leaves_its_store_at_once_and_a_stopped_one_keeps_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    command = [sys.executable, "-c", OWNING, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"owns it\n"
        program.send_signal(signal.SIGSTOP)
        for engine in ("local", "ray"):
            with pytest.raises(StoreInUseError, match=f"in process {program.pid}"):
                Deploy(engine, tmp_path)(root()).start()
        program.kill()
        program.wait()
        with Deploy("local", tmp_path)(root()) as rt:
            assert author_texts(run_turn(rt, "hi")) == [("root", "here I am")]
