"""A deployment that outlives its driver, whose process was killed in the middle of a turn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import LlmAgent
from actors.errors import DefinitionError, DeploymentExistsError, DeploymentNotFoundError, RuntimeClosedError
from actors.messages.protocol.statistics import Statistics
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.programs.detached_driver import APP, PipeGate, detached_runtime, detached_tree
from tests.support.runtimes import Deploy, author_texts, run_turn

pytestmark = pytest.mark.sampled(2, of="module")


class LeftDeployment(msgspec.Struct):
    """What a killed driver has left: its stores, and a turn that waits at the gate, of which it had got events up to `seq`."""

    folder: Path
    invocation_id: str
    seq: int


@pytest.fixture(scope="module")
def left(local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeftDeployment]:
    folder = tmp_path_factory.mktemp("outpost")
    os.mkfifo(PipeGate(folder).path)
    command = [sys.executable, "-m", "tests.support.programs.detached_driver", local_ray, str(folder)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        invocation_id, seq = json.loads(driver.stdout.readline())
        driver.kill()
    yield LeftDeployment(folder, invocation_id, seq)
    with Runtime.connect(APP) as rt:
        pids = [each.pid for each in all_actors(rt)]
        rt.shutdown()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    with pytest.raises(DeploymentNotFoundError, match="app 'outpost' is not deployed"), Runtime.connect(APP):
        pass


def all_actors(rt: Runtime) -> list[Statistics]:
    seen = rt.statistics()
    return [seen.session, seen.runner, *seen.agents.values()]


def test_the_turn_of_a_driver_that_was_killed_goes_on_and_is_told_in_full(left: LeftDeployment) -> None:
    where: dict[str, Any] = {"user_id": "ada", "session_id": "s1", "invocation_id": left.invocation_id}
    with Runtime.connect(APP) as rt:
        whole, behind = rt.attach(**where), rt.attach(**where, after_seq=left.seq)
        following = iter(whole)
        call = next(following)
        assert [each.name for each in call.function_calls()] == ["wait"]
        PipeGate(left.folder).path.write_text("open")
        events = [call, *following]
        assert [event.seq for event in events] == [left.seq, left.seq + 1, left.seq + 2]
        assert events[-1].text == "it is open"
        assert list(behind) == events[1:]
    with Runtime.connect(APP) as rt:
        assert list(rt.attach(**where)) == events
        assert list(rt.attach(**where, after_seq=left.seq + 1)) == events[2:]
        assert author_texts(run_turn(rt, "hi")) == [("guard", "hello")]


def test_its_actors_are_started_and_started_again_long_after_its_driver_has_gone(left: LeftDeployment) -> None:
    with Runtime.connect(APP) as rt:
        *_, result, answer = run_turn(rt, "ask the scout", session_id="s2")
        assert (answer.author, answer.text) == ("scout", "found")
        assert [response.response["result"] for response in result.function_responses()] != [rt.statistics().agents["scout"].pid]
        before = rt.statistics()
        for lost in (before.runner, before.session, before.agents["scout"]):
            os.kill(lost.pid, signal.SIGKILL)
        assert author_texts(run_turn(rt, "again", session_id="s2"))[-1] == ("scout", "found")
        after = rt.statistics()
        assert {each.pid for each in (after.runner, after.session)} & {before.runner.pid, before.session.pid} == set()
        assert author_texts(run_turn(rt, "back", session_id="s2"))[-1] == ("guard", "hello")


def test_an_app_that_runs_is_not_started_twice_and_takes_no_harm(left: LeftDeployment) -> None:
    with Runtime.connect(APP) as rt:
        with pytest.raises(DeploymentExistsError, match=r"Runtime\.connect\('outpost'\)"), detached_runtime(left.folder, None):
            pass
        assert author_texts(run_turn(rt, "hi", session_id="s3")) == [("guard", "hello")]


def test_leaving_it_leaves_it_and_whoever_has_started_it_can_stop_it(local_ray: str, tmp_path: Path) -> None:
    model = ScriptedModel(["one", "two", "three"])
    rt = Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), app_name="camp", detached=True)
    with rt:
        assert run_turn(rt, "hi")[-1].text == "one"
    assert len(model.requests) == 1
    with pytest.raises(RuntimeClosedError):
        rt.shutdown()
    with Runtime.connect("camp") as other:
        assert run_turn(other, "hi")[-1].text == "two"
        # The last program shuts the app down; those still connected get an error.
        with Runtime.connect("camp") as third:
            third.shutdown()
        with pytest.raises(DeploymentNotFoundError):
            run_turn(other, "hi")
    with rt:
        assert run_turn(rt, "hi")[-1].text == "two"
        rt.shutdown()
    with pytest.raises(DeploymentNotFoundError):
        Runtime.connect("camp").start()


def test_it_needs_a_ray_that_outlives_the_program(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="a detached deployment lives on a Ray cluster"):
        Deploy("local", tmp_path)(detached_tree(tmp_path), detached=True)
    program = (
        "from pathlib import Path\n"
        "from actors.errors import ClusterError\n"
        "from tests.support.programs.detached_driver import detached_runtime\n"
        "try:\n"
        "    detached_runtime(Path('.'), 'local').start()\n"
        "except ClusterError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    assert done.stdout == (
        "a Ray that this program starts would end with it. Start a cluster with 'ray start --head', and give its address\n"
    )
