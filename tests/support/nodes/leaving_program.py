"""A program: the node of the Session actor and the Runner is drained while sessions talk, and both leave it before it ends.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Arguments: a folder, whether there are
standbys, and the URL of the session store.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import RayActorError

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from tests.support.nodes.node_programs import drain
from tests.support.nodes.two_nodes_program import QUICK
from tests.support.polling import until
from tests.support.runtimes import Deploy

APP = "leaving"
SESSIONS = 4
ENDS_IN_S = 120.0


def node_of(name: str) -> str:
    """The node on which an actor runs; "" while it is being started."""
    handle = ray.get_actor(f"{APP}/{name}", namespace=Settings().namespace)
    with suppress(RayActorError):
        return str(ray.get(handle.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())))
    return ""


def told_of_drains(rt: Runtime) -> list[str]:
    """What was said of nodes that drain."""
    return [event.text for event in rt.deployment_events() if event.kind == "node drains"]


class Talk:
    """Sessions that talk all the time, each one turn after the other."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._is_over = threading.Event()
        self.took_s: dict[str, list[float]] = {f"s{number}": [] for number in range(SESSIONS)}
        self.wrong: list[str] = []

    def turn(self, session: str) -> None:
        """Run one turn."""
        began_s = time.monotonic()
        try:
            said = self._rt.run(user_id="ada", session_id=session, message="go").result().text
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said != "answered":
            self.wrong.append(said)
        self.took_s[session].append(time.monotonic() - began_s)

    def go_on(self) -> None:
        """Wait until each session has had three more turns."""
        wanted = {session: len(took) + 3 for session, took in self.took_s.items()}
        until(lambda: all(len(self.took_s[session]) >= number for session, number in wanted.items()))

    def talk(self, session: str) -> None:
        """Talk in one session until the end."""
        while not self._is_over.is_set():
            self.turn(session)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have all sessions talk."""
        with ThreadPoolExecutor(SESSIONS) as threads:
            talking = [threads.submit(self.talk, session) for session in self.took_s]
            try:
                yield
            finally:
                self._is_over.set()
        for each in talking:
            each.result()


def main(folder: Path, has_standbys: bool, store: str) -> None:
    """Print what has left, and what was said of it."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
    ending = cluster.add_node(num_cpus=1, resources={"core": 1})
    cluster.wait_for_nodes()
    settings = Settings(
        core_resources={"core": 0.01}, standby_sessions=has_standbys, standby_runners=has_standbys, log_to_driver=False
    )
    names = ["session", "runner"] + (["session-standby", "standby"] if has_standbys else [])
    root = LlmAgent(name="root", model=PatternModel([], default="answered"))
    with Deploy("ray", folder)(root, app_name=APP, address=cluster.address, session_store=store, settings=settings) as rt:
        print("RESULT all are there at first", set(map(node_of, names)) == {ending.node_id})
        talk = Talk(rt)
        with talk.running():
            talk.go_on()
            began_s = time.monotonic()
            drain(cluster.address, ending.node_id, "PREEMPTION", ENDS_IN_S)
            stays = {"session"} if store.startswith("sqlite") else set()
            until(lambda: any("until another node has room" in text for text in told_of_drains(rt)))
            command = [sys.executable, "-m", "raygrove", "ps", "--address", cluster.address, "--json"]
            [row] = map(json.loads, subprocess.run(command, capture_output=True, check=True).stdout.splitlines())
            print("RESULT listed", [each for each in row["onDrainingNodes"] if not each.startswith("host/")])
            cluster.add_node(num_cpus=1, resources={"core": 1})
            until(lambda: not {"", ending.node_id} & {node_of(name) for name in names if name not in stays})
            print(f"all have left after {time.monotonic() - began_s:.1f} s", file=sys.stderr)
            talk.go_on()
            print("RESULT wrong", talk.wrong[:3])
            print(f"longest turn: {max(max(took) for took in talk.took_s.values()):.2f} s", file=sys.stderr)
            told = (text.removeprefix(f"{APP}/").partition(" node")[0] for text in told_of_drains(rt) if text.startswith(APP))
            print("RESULT told", sorted(set(told)))
            print(*(f"{event.kind}: {event.text}" for event in rt.deployment_events()), sep="\n", file=sys.stderr)
            if not stays:
                cluster.remove_node(ending, allow_graceful=False)
                talk.go_on()
            print("RESULT wrong after the end of the node", talk.wrong[:3])
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    place, standbys, url = sys.argv[1:]
    main(Path(place), standbys == "True", url)
