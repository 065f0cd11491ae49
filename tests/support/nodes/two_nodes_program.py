"""A program: the node on which all actors of a deployment live dies in the middle of a turn, and the turn is answered.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Arguments: a folder, and the URL of the
session store.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from actors import LlmAgent, Placement, RunConfig, SequentialAgent, tool
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy

QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_timeout_ms": 500}
"""How soon a lost node is noticed. Ray's own values take many seconds."""

AGENTS = Placement(resources={"work": 0.01})


def main(folder: Path, store: str) -> None:
    """Print the events of the turn, and whether the Session actor has moved."""
    waiting = GatedModel(folder, "answered")

    @tool
    def note(text: str) -> str:
        """Note something, where it can be counted."""
        with (folder / "notes").open("a") as file:
            file.write(f"{text}\n")
        return text

    first = LlmAgent(
        name="first",
        model=PatternModel([("tool:note", "noted"), ("", {"call": "note", "args": {"text": "once"}})]),
        tools=[note],
        placement=AGENTS,
    )
    second = LlmAgent(name="second", model=waiting, placement=AGENTS)
    root = SequentialAgent(name="root", sub_agents=[first, second], placement=AGENTS)
    settings = Settings(core_resources={"work": 0.01}, log_to_driver=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
    lost = cluster.add_node(num_cpus=1, resources={"work": 1})
    cluster.wait_for_nodes()
    with Deploy("ray", folder)(root, app_name="nodes", address=cluster.address, session_store=store, settings=settings) as rt:
        before = rt.statistics().session.pid
        turn = rt.run(user_id="ada", session_id="s", message="go", run_config=RunConfig(timeout=100))
        waiting.wait_until_called()
        cluster.add_node(num_cpus=1, resources={"work": 1})
        began_s = time.monotonic()
        cluster.remove_node(lost, allow_graceful=False)
        # The model call that was lost is made again in another process.
        waiting.wait_until_called()
        took_s = time.monotonic() - began_s
        waiting.release()
        said = [(event.author, event.text) for event in turn if event.text]
        log = rt.sessions.get("ada", "s")
        assert log is not None
        print("RESULT said", said)
        print("RESULT seqs", [event.seq for event in log.events])
        print("RESULT notes", (folder / "notes").read_text().split())
        print("RESULT moved", before != rt.statistics().session.pid)
        print(f"took {took_s:.1f} s", file=sys.stderr)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
