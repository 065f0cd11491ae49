"""Defects of what is done when nodes come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from unittest import mock

from ray.exceptions import ActorUnavailableError

from actors.rules.recovery import leaving
from runtime.cluster.processes.moving import Moving
from runtime.cluster.processes.process_table import ProcessTable
from runtime.cluster.processes.worker_process import WorkerProcess
from runtime.cluster.transport import link


def preempted_actors_are_gone() -> AbstractContextManager[object]:
    """What Ray raises while it starts an actor of a preempted node elsewhere is taken as its end."""
    return mock.patch.object(link, "is_away", lambda error: isinstance(error, ActorUnavailableError))


def the_core_stays_until_its_node_ends() -> AbstractContextManager[object]:
    """Nothing leaves a node that drains before the node ends."""
    return mock.patch.multiple(leaving, _is_time=lambda *given: False, _is_late=lambda *given: False)


def agents_stay_until_their_node_ends() -> AbstractContextManager[object]:
    """No agent moves off a node that drains."""
    return mock.patch.object(Moving, "_leaving", return_value={})


def agents_in_use_move() -> AbstractContextManager[object]:
    """A process whose agents have moved is ended with the runs in it."""

    def drain(self: ProcessTable, worker: WorkerProcess, why: str, *, gently: bool = False) -> None:
        self.lose(worker)

    return mock.patch.object(ProcessTable, "drain", drain)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        preempted_actors_are_gone,
        the_core_stays_until_its_node_ends,
        agents_stay_until_their_node_ends,
        agents_in_use_move,
    )
}
"""All of them, by name."""
