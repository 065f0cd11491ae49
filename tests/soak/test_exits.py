"""Two hundred programs leave in the midst of their turns, each in one of five ways: none starts a Ray, none hangs, nothing stays.

`SOAK_TIMES=1` has each way once instead of 16 times.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.support.machine.leaving import WAYS, Departure, LeavingProgram
from tests.support.machine.processes import kill
from tests.support.machine.terminal import Tell
from tests.support.servers.ray_head import started

TIMES = int(os.environ.get("SOAK_TIMES", "16"))

WITHIN_S = 15.0
"""How long a program may take."""

SOON_S, LATE_S = 10.0, 60.0
"""How long its processes may take; those of a Ray that was killed look from time to time whether it lives."""

KILLED = itertools.cycle([("gcs_server",), ("raylet",), ("gcs_server", "raylet")])
"""What is killed of a Ray."""

APPS = ("first", "second", "third", "fourth", "fifth")


def check(departures: Iterator[Departure], tell: Tell) -> None:
    faults = []
    for each in departures:
        faults += each.faults(WITHIN_S)
        tell(f"{each.place} by {each.way}: {each.took_s:.1f} s{', with faults' if each.faults(WITHIN_S) else ''}")
    assert not faults, "\n".join(faults)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_programs_with_a_ray_of_their_own_leave(tell: Tell) -> None:
    check(with_own_rays(), tell)


def with_own_rays() -> Iterator[Departure]:
    for way in TIMES * WAYS:
        with LeavingProgram("own", way) as program:
            if way == "ray":
                program.kill_ray(*next(KILLED))
            yield program.leave(LATE_S if way == "ray" else SOON_S)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("place", ["joined", "detached"])
def test_programs_on_a_ray_of_others_leave(place: str, tell: Tell) -> None:
    # Fewer of those that have made a deployment: they leave as those do that have joined it.
    rounds = range(TIMES if place == "joined" else max(1, TIMES // 2))
    check((departure for _ in rounds for departure in on_a_head(place)), tell)


def on_a_head(place: str) -> Iterator[Departure]:
    with started("token") as head:
        first = LeavingProgram("detached", "end", head.address, APPS[0], **head.environment)
        with first:
            for way, app in zip(WAYS, APPS, strict=True):
                joins = APPS[0] if place == "joined" else f"{app}-too"
                with LeavingProgram(place, way, head.address, joins, **head.environment) as program:
                    if way == "ray":
                        kill(*(pid for name in next(KILLED) for pid in head.pids(name)))
                    yield program.leave(SOON_S)
