"""Whoever is lost at any message of programs with graphs, their turns are the same, and no node that has ended is repeated.

The variable SOAK_EVERY says at one in how many messages; without it at one in three.
"""

from __future__ import annotations

import os
from typing import get_args

import pytest

from tests.graph.kills import Played, differences, tried
from tests.graph.mortal import Kind
from tests.graph.programs import PROGRAMS

EVERY = int(os.environ.get("SOAK_EVERY", "3"))


@pytest.fixture(params=["native", "adapter"])
def by_adapter(request: pytest.FixtureRequest) -> bool:
    """The program is built of this project's classes, or of google-adk's, in the environment that has it."""
    if request.param == "adapter":
        pytest.importorskip("google.adk", reason="google-adk has an environment of its own", exc_type=ImportError)
    return bool(request.param == "adapter")


def test_what_is_otherwise_is_told() -> None:
    expected = Played({"turns": []}, {"0: wf@1/a@1 1": [1.0]}, {"0: wf@1/a@1": 2.0}, was_killed=False)
    assert not list(differences(expected, expected))
    # What was under way is begun again.
    assert not list(differences(expected._replace(begun={"0: wf@1/a@1 1": [1.0, 1.5]}), expected))
    again = expected._replace(begun={"0: wf@1/a@1 1": [1.0, 3.0]})
    assert list(differences(again, expected)) == ["0: wf@1/a@1 1 was begun again after it had ended"]
    assert list(differences(expected._replace(begun={}), expected)) == ["0: wf@1/a@1 1 was begun 0 times and not 1"]
    assert list(differences(expected._replace(shown={"turns": [1]}), expected)) == ["turns: [1] and not []"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("standbys", [False, True], ids=["alone", "standbys"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_processes_are_killed(name: str, standbys: bool, by_adapter: bool) -> None:
    times, wrong = tried(name, EVERY, by_adapter=by_adapter, standbys=standbys)
    assert not wrong
    assert all(times[kind] for kind in get_args(Kind))


# A program, and a few of the moments that the soak tries all of.
@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_processes_of_each_kind_are_killed_at_a_few_moments() -> None:
    times, wrong = tried("approval", 11)
    assert not wrong
    assert all(times[kind] >= 2 for kind in get_args(Kind))
