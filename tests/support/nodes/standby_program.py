"""A program: the process of an actor is killed in the middle of a turn, and its standby on another node goes on with the turn.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Arguments: a folder, `runner` or
`session`, and the URL of the session store.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from actors import LlmAgent
from runtime.settings import Settings
from tests.support.machine.processes import is_running
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy

APP = "standby"

STANDBYS = {
    "runner": Settings(standby_runners=True, spare_hosts=1, log_to_driver=False),
    "session": Settings(standby_sessions=True, spare_hosts=1, log_to_driver=False),
}
NAMES = {"runner": "standby", "session": "session-standby"}
PROCESSES = {"runner": 2, "session": 1}
"""How many processes stand by: that of a Runner has one for agents."""


def node_of(name: str) -> str:
    """The node on which an actor runs."""
    handle = ray.get_actor(f"{APP}/{name}", namespace=Settings().namespace)
    return str(ray.get(handle.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())))


def main(folder: Path, kind: str, store: str) -> None:
    """Print where the actor and its standby were, and what was said."""
    model = GatedModel(folder, "answered")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    root, settings = LlmAgent(name="root", model=model), STANDBYS[kind]
    with Deploy("ray", folder)(root, app_name=APP, address=cluster.address, session_store=store, settings=settings) as rt:
        until(lambda: len(getattr(rt.statistics(), kind).standby_pids) == PROCESSES[kind])
        before = getattr(rt.statistics(), kind)
        nodes = node_of(kind), node_of(NAMES[kind])
        turn = rt.run(user_id="ada", session_id="s", message="go")
        model.wait_until_called()
        until(lambda: rt.turns.list("ada", "s", "running"))
        agent = rt.statistics().agents["root"].pid
        began_s = time.monotonic()
        os.kill(before.pid, signal.SIGKILL)
        if kind == "runner":
            model.wait_until_called()
            # Until the agent's process has ended its call waits at the same gate.
            until(lambda: not is_running(agent))
        model.release()
        print("RESULT said", [(event.author, event.text) for event in turn if event.text])
        print("RESULT took over", getattr(rt.statistics(), kind).pid == before.standby_pids[0])
        print("RESULT on another node", nodes[0] != nodes[1])
        print(f"took {1_000 * (time.monotonic() - began_s):.0f} ms", file=sys.stderr)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
