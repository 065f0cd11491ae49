"""Every case of the vectors, on both engines.

The file is tests/vectors.yaml, or the one that RAYGROVE_VECTORS names. `pytest -rs` lists the cases that cannot run yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runtime import Runtime
from tests.acceptance import areas
from tests.acceptance.vectors import Case, TreeBuilder, VectorError, load, not_yet_supported
from tests.helpers import Deploy

CHECKS: Mapping[str, Callable[[Case, areas.MakeRuntime], None]] = {
    "flow": areas.check_flow,
    "state": areas.check_state,
    "contents": areas.check_contents,
    "runner": areas.check_runner,
    "targets": areas.check_targets,
    "template": areas.check_template,
    "construct": areas.check_construct,
}


class SharedTree:
    """One live Runtime: that of the tree asked for last. Cases that only look at a tree need none of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ""
        self._life = ExitStack()
        self._runtime: Runtime | None = None
        self._count = 0

    def __call__(self, engine: str, tree: Mapping[str, Any]) -> Runtime:
        key = json.dumps([engine, tree])
        if self._runtime is None or key != self._key:
            self.close()
            self._count += 1
            deploy = Deploy(engine, self._folder / str(self._count))
            deploy.folder.mkdir()
            root = TreeBuilder(areas.shared_model()).build(tree)
            self._runtime = self._life.enter_context(deploy(root, app_name="vectors"))
            self._key = key
        return self._runtime

    def close(self) -> None:
        self._life.close()
        self._runtime = None


@pytest.fixture(scope="module")
def shared_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedTree]:
    shared = SharedTree(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


class Fresh:
    """Makes Runtimes with stores of their own: nothing of one is left for the next."""

    def __init__(self, engine: str, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._count = 0

    def __call__(self, root: Any, **options: Any) -> Runtime:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return Deploy(self._engine, folder)(root, **options)


@pytest.mark.parametrize("case", load(), ids=lambda case: case.id)
@pytest.mark.parametrize("engine_name", ["local", "ray"])
def test_vector(engine_name: str, case: Case, tmp_path: Path, shared_tree: SharedTree, request: pytest.FixtureRequest) -> None:
    if case.area not in (*CHECKS, "selection", "controlflow"):
        raise VectorError(f"{case.id}: unknown area {case.area!r}")
    missing = not_yet_supported(case)
    if missing is not None:
        pytest.skip(f"not yet supported: {missing} ({case.id})")
    if engine_name == "ray" and case.area != "construct":
        request.getfixturevalue("local_ray")
    if case.area == "selection":
        areas.check_selection(case, lambda tree: shared_tree(engine_name, tree))
    else:
        CHECKS[case.area](case, Fresh(engine_name, tmp_path))
