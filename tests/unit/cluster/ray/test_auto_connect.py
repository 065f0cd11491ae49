"""Ray connects by itself for a program that calls it, and not for raygrove."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import ray
from runtime.cluster.ray.connections import RayEndedError, connect_for_programs_only

ray.init = lambda *arguments, **options: print("Ray is started")
for _ in range(2):
    connect_for_programs_only()


@ray.remote
class Actor:
    def call(self):
        pass


@ray.remote
def task():
    pass


calls = {
    "an actor": "Actor.remote()",
    "a task": "task.remote()",
    "a name": "ray.get_actor('a')",
    "a placement group": "ray.util.placement_group([{'CPU': 1}])",
}
for what, code in calls.items():
    for package in ("runtime.cluster.somewhere", "program"):
        try:
            exec(code, {"__name__": package, "ray": ray, "Actor": Actor, "task": task})
        except RayEndedError as error:
            print(what, "of", package, error)
        except Exception:
            # Nothing is started here.
            print(what, "of", package)
"""


def test_a_call_of_ours_without_a_connection_starts_no_ray_and_one_of_a_program_does() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    expected = [
        line
        for what in ("an actor", "a task", "a name", "a placement group")
        for line in (
            f"{what} of runtime.cluster.somewhere this program has ended its connection with Ray",
            "Ray is started",
            f"{what} of program",
        )
    ]
    assert done.stdout.splitlines() == expected, done.stderr
