"""Names inside Ray that it does not promise are used in one room, `runtime/cluster/ray`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.sources import PACKAGES, Source, docstrings, source, sources

RAY_ROOM = "runtime/cluster/ray"
INSIDE_RAY = re.compile(r"ray\.(core|(\w+\.)*_[a-z]\w*|cloudpickle\.cloudpickle)(\.\w+)*")
"""Names that Ray does not promise: with an underscore anywhere, or of its generated protocol."""

WORKERS_OF_RAY = ("global_worker", "_global_node", "_ray_params", "core_worker")
"""Attributes by which Ray's own objects are reached."""

SPEAKS_OF_RAY = re.compile(rf"\bray\b|{'|'.join(WORKERS_OF_RAY)}")


def private_names_of_ray(given: Sequence[Source]) -> list[str]:
    """Names inside Ray, outside of the one room for them; and in that room where a module that is imported asks for them."""
    found = []
    for each in (each for each in given if SPEAKS_OF_RAY.search(each.text)):
        is_room = each.path.is_relative_to(RAY_ROOM)
        nodes: list[Any] = module_level(each.tree) if is_room else list(each.nodes)
        said = {id(node) for node, _ in docstrings(each)}
        for node in nodes:
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said and not is_room:
                names = [node.value]
            found += [f"{each.at(node.lineno)} uses {name}" for name in names if INSIDE_RAY.fullmatch(name)]
            if isinstance(node, ast.Attribute) and node.attr in WORKERS_OF_RAY:
                found.append(f"{each.at(node.lineno)} uses {node.attr}")
    return sorted(set(found))


def module_level(tree: ast.Module) -> list[Any]:
    """What runs when a module is imported."""
    found: list[Any] = []
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += ast.iter_child_nodes(node)
    return found


def test_names_inside_ray_are_in_one_room() -> None:
    found = private_names_of_ray(sources(*PACKAGES, "examples"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"a/x.py": "from ray._private import services"}, "a/x.py:1 uses ray._private.services"),
        ({"a/x.py": "def f():\n    import ray._raylet"}, "a/x.py:2 uses ray._raylet"),
        ({"a/x.py": "from ray import _private"}, "a/x.py:1 uses ray._private"),
        ({"a/x.py": "from ray.core.generated import gcs_pb2"}, "uses ray.core.generated.gcs_pb2"),
        ({"a/x.py": "ray._private.worker.x()"}, "a/x.py:1 uses ray._private.worker.x"),
        ({"a/x.py": "import_module('ray._common.usage')"}, "a/x.py:1 uses ray._common.usage"),
        ({"a/x.py": "worker.global_worker.node"}, "a/x.py:1 uses global_worker"),
        ({f"{RAY_ROOM}/x.py": "class A:\n    from ray._private import node"}, "uses ray._private.node"),
    ],
)
def test_the_check_finds_them(texts: dict[str, str], complaint: str) -> None:
    assert complaint in "\n".join(private_names_of_ray([source(path, text) for path, text in texts.items()]))


@pytest.mark.parametrize(
    "texts",
    [
        {"a/x.py": '"""See ray._private."""\nimport ray\nray.util.get_node_ip_address()'},
        {f"{RAY_ROOM}/x.py": "A = P('ray._private', 'x')\ndef f():\n    import ray._raylet"},
    ],
)
def test_the_check_does_not_complain_without_a_reason(texts: dict[str, str]) -> None:
    assert private_names_of_ray([source(path, text) for path, text in texts.items()]) == []


ABSENCE = f"{RAY_ROOM}/absence.py"
JUDGED = re.compile(r"RayActorError|ActorDiedError|ActorUnavailableError|(actor_)?preempted")
"""What a module would have to name to say by itself whether an actor is away or gone."""

EITHER_WAY = {
    "runtime/cluster/core/standby.py": "a lost process leads no more, whether Ray starts it again or not",
    "runtime/cluster/ray/auto_connect.py": "it raises one itself, of actors that are gone for this program",
}
"""Modules that catch Ray's error of an actor that has not answered, and need not know whether that is away."""


def judges_of_absence(given: Sequence[Source]) -> list[str]:
    """Places that say by themselves whether an actor is away or gone, or catch Ray's error of such an actor and do not ask."""
    found = []
    for each in (each for each in given if str(each.path) != ABSENCE):
        for node in each.nodes:
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [node.attr]
            found += [f"{each.at(node.lineno)} uses {name}" for name in names if JUDGED.fullmatch(name)]  # type: ignore[attr-defined]
        if "AbsentActorError" in each.text and "is_away(" not in each.text and str(each.path) not in EITHER_WAY:
            found.append(f"{each.path} does not ask is_away")
    return found


def test_one_place_says_whether_an_actor_is_away_or_gone() -> None:
    found = judges_of_absence(sources(*PACKAGES))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from ray.exceptions import RayActorError", "a/x.py:1 uses RayActorError"),
        ("import ray\ntry:\n    f()\nexcept ray.exceptions.ActorDiedError:\n    pass", "a/x.py:4 uses ActorDiedError"),
        ("def f(error):\n    return error.preempted", "a/x.py:2 uses preempted"),
        (f"from {ABSENCE[:-3].replace('/', '.')} import AbsentActorError", "a/x.py does not ask is_away"),
    ],
)
def test_the_check_finds_other_judges(text: str, complaint: str) -> None:
    assert judges_of_absence([source("a/x.py", text)]) == [complaint]
