"""A local raylet's agents are started when they are needed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import ray

from runtime.cluster.ray.local import agent_start
from runtime.cluster.ray.local.local_ray import light_agents

ENVIRONMENTS = "runtime_env/agent/main.py"
AGENT = """
import socket, sys
(port,) = [int(each.partition("=")[2]) for each in sys.argv if each.startswith("--runtime-env-agent-port=")]
other = socket.socket()
other.bind(("127.0.0.1", 0))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(128)
for _ in range(2):
    connection, _ = listener.accept()
    connection.sendall(f"{sys.argv[1]} {other.getsockname()[1] != port} {__name__}".encode())
    connection.close()
"""
"""An agent that answers two connections."""


def command(folder: Path, file: str, *more: str) -> list[str]:
    given = [f"--session-dir={folder}", "--node-id=1f", "--node-ip-address=127.0.0.1", "--runtime-env-agent-port=0"]
    return [sys.executable, "-u", str(folder / file), *given, *more]


def test_it_stands_for_what_it_knows(tmp_path: Path) -> None:
    assert agent_start.stands_for(command(tmp_path, ENVIRONMENTS)) == "environments"
    assert agent_start.stands_for(command(tmp_path, "dashboard/agent.py", "--minimal")) == "dashboard"
    # It serves metrics.
    assert agent_start.stands_for(command(tmp_path, "dashboard/agent.py")) == ""
    assert agent_start.stands_for(command(tmp_path, "dashboard/later.py", "--minimal")) == ""
    profiled = ["-m", "memray", "run", *command(tmp_path, ENVIRONMENTS)[2:]]
    assert agent_start.stands_for([sys.executable, *profiled]) == ""
    for name in ("session-dir", "node-id", "node-ip-address", "runtime-env-agent-port"):
        without = [each for each in command(tmp_path, ENVIRONMENTS) if not each.startswith(f"--{name}")]
        assert agent_start.stands_for(without) == ""
    assert agent_start.stands_for([sys.executable, "-u"]) == ""


def test_a_raylet_starts_it_in_the_place_of_its_agents(tmp_path: Path) -> None:
    spaced = command(tmp_path / "a folder", ENVIRONMENTS)
    known, unknown = subprocess.list2cmdline(spaced), subprocess.list2cmdline([sys.executable, "other.py"])
    before = ["raylet", "--head", f"--runtime_env_agent_command={known}", f"--dashboard_agent_command={unknown}"]
    raylet, head, first, second = light_agents(before)
    started = subprocess.list2cmdline([sys.executable, agent_start.__file__, *spaced])
    assert (raylet, head, second) == ("raylet", "--head", before[3])
    assert first == f"--runtime_env_agent_command={started}"
    # What Ray has quoted in another way is left as it is.
    assert light_agents(['--dashboard_agent_command=python "unbalanced']) == ['--dashboard_agent_command=python "unbalanced']


def start(given: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, agent_start.__file__, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def port(folder: Path, name: str, process: subprocess.Popen[bytes]) -> int:
    """The port that a process tells, as soon as it does."""
    path = folder / f"{name}_1f"
    while not path.exists():
        assert process.poll() is None
        os.sched_yield()
    return int(path.read_text())


def test_a_dashboard_s_agent_without_work_ends_with_its_raylet(tmp_path: Path) -> None:
    with start(command(tmp_path, "dashboard/agent.py", "--minimal")) as process:
        assert [port(tmp_path, name, process) for name in agent_start.DASHBOARD_PORTS] == [-1, -1, -1]
        assert process.poll() is None
        cast(Any, process.stdin).close()
        assert process.wait(10) == 0


def test_the_first_connection_starts_the_agent_which_answers_it(tmp_path: Path) -> None:
    agent = tmp_path / ENVIRONMENTS
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    with start(command(tmp_path, ENVIRONMENTS, "--last")) as process:
        address = ("127.0.0.1", port(tmp_path, agent_start.ENVIRONMENT_PORT, process))
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            answers = [each.makefile().read() for each in (first, second)]
        assert process.wait(10) == 0
    assert answers == [f"--session-dir={tmp_path} True __main__"] * 2


def test_an_agent_that_nothing_asks_for_ends_with_its_raylet(tmp_path: Path) -> None:
    with start(command(tmp_path, ENVIRONMENTS)) as process:
        assert port(tmp_path, agent_start.ENVIRONMENT_PORT, process) > 0
        cast(Any, process.stdin).close()
        # The agent's file does not even exist.
        assert process.wait(10) == 0


def test_without_a_pipe_from_the_raylet_the_agent_itself_is_started(tmp_path: Path) -> None:
    agent = tmp_path / ENVIRONMENTS
    agent.parent.mkdir(parents=True)
    agent.write_text("import sys; print(sys.argv[-1])")
    given = [sys.executable, agent_start.__file__, *command(tmp_path, ENVIRONMENTS, "--last")]
    done = subprocess.run(given, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b"--last\n"


def test_a_task_on_a_local_ray_has_its_runtime_environment(local_ray: str) -> None:
    @ray.remote(num_cpus=0, runtime_env={"env_vars": {"WHERE_IT_RUNS": "here"}})
    def where() -> str:
        return os.environ["WHERE_IT_RUNS"]

    assert ray.get(where.remote()) == "here"
