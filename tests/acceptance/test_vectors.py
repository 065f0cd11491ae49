"""Every case of the vectors, on both engines.

The file is tests/vectors.yaml, or the one that RAYGROVE_VECTORS names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.vectors import vector_areas as areas
from tests.support.vectors import vector_flows as controlflow
from tests.support.vectors.shared_runtimes import CaseRuntime, CaseRuntimes, RuntimeFactory, sharing_key
from tests.support.vectors.vector_notation import Case, VectorError, load_cases

pytestmark = pytest.mark.sampled(5, of="module", full=3)

WITH_TURNS: Mapping[str, Callable[[Case, CaseRuntime], None]] = {
    "flow": areas.check_flow,
    "state": areas.check_state,
    "contents": areas.check_contents,
    "runner": areas.check_runner,
}
WITH_DEFINITIONS: Mapping[str, Callable[[Case, RuntimeFactory], None]] = {
    "targets": areas.check_targets,
    "template": areas.check_template,
    "construct": areas.check_construct,
}


def has_script(case: Case) -> bool:
    """True for cases with a script: they run in a CaseRuntime."""
    return case.area in WITH_TURNS or controlflow.is_run(case)


CASES: Mapping[str, Sequence[Case]] = {
    "local": load_cases(),
    # Cases that share a tree are neighbours, so that they can share its processes.
    "ray": sorted(load_cases(), key=lambda case: (has_script(case) and sharing_key(case)) or ""),
}


@pytest.fixture(scope="module", autouse=True)
def few_processes() -> Iterator[None]:
    """Hundreds of trees, with two processes for the agents of each. Tests that need a process per agent are elsewhere.

    Their messages are calls of Ray's; in other tests they go over direct connections.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAYGROVE_MAX_LIVE_AGENTS", "2")
        environment.setenv("RAYGROVE_TRANSPORT", "ray")
        yield


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CaseRuntimes]]:
    made = {}
    for engine, cases in CASES.items():
        scripted = [case for case in cases if has_script(case)]
        made[engine] = CaseRuntimes(RuntimeFactory(engine, tmp_path_factory.mktemp(engine)), scripted)
    yield made
    for each in made.values():
        each.close()


@pytest.mark.parametrize(
    ("engine_name", "case"),
    [pytest.param(engine, case, id=f"{engine}-{case.id}") for engine, cases in CASES.items() for case in cases],
)
def test_vector(
    engine_name: str, case: Case, tmp_path: Path, runtimes: Mapping[str, CaseRuntimes], request: pytest.FixtureRequest
) -> None:
    if case.area not in (*WITH_TURNS, *WITH_DEFINITIONS, "selection", "controlflow"):
        raise VectorError(f"{case.id}: unknown area {case.area!r}")
    if engine_name == "ray" and (has_script(case) or case.area in (*WITH_DEFINITIONS, "selection")) and case.area != "construct":
        request.getfixturevalue("local_ray")
    if case.area == "selection":
        areas.check_selection(case, runtimes[engine_name])
    elif controlflow.is_run(case):
        controlflow.check_run(case, runtimes[engine_name].of_case(case))
    elif case.area == "controlflow":
        controlflow.check_rules(case)
    elif case.area in WITH_DEFINITIONS:
        WITH_DEFINITIONS[case.area](case, RuntimeFactory(engine_name, tmp_path))
    else:
        WITH_TURNS[case.area](case, runtimes[engine_name].of_case(case))
