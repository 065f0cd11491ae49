"""The shape of the tree: what may import what, and words that its prose does not use.

Every check is a function from sources to complaints; the last test gives each a source that it has to complain about.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import PACKAGES, ROOT, Source, comments, docstrings, imports, parse, prose, source, sources, that_say

MAX_ANY_PER_1000 = 12

SHARED_NAMES = {
    "Failed": "runtime.testing has it for programs: it is a step of a turn there, beside Said and Called",
}
"""Names that two public classes may have, and why."""

MODEL_TEXTS = {
    "actors/layers/tools/built_in.py": "_exit_loop",
    "actors/layers/flows/definitions/task_tools.py": "_NewTask",
}
"""Functions and classes whose docstrings are descriptions of tools: models read them, so they stay word for word."""

MODEL_CALLERS = {
    "actors/behaviours/interceptor.py": "the end of the chain of interceptors, with those of budgets among them",
    "actors/layers/limiter/client.py": "a model around another one: the calls that come to it were allowed",
    "runtime/models/fallback.py": "likewise",
    "runtime/cluster/deployment/shared_models.py": "likewise, in the process of a model that is shared",
}
"""Files that call models."""

OF_THE_INSIDE = {
    "tests/unit/inside/": "tests of the inside itself",
    "tests/support/": "fixtures, and inside.py, which has what tests of behaviour use of it",
    "tests/simulation/stores.py": "stands in for the threads of stores",
}
"""Tests that import the inside of Session actors and Runners, and why. All others send messages, or use the public API."""

BUDGET_QUESTIONS = ("reserve", "reserve_if_room")
"""Methods whose answers say what budgets have room for."""

BANNED = re.compile(r"\b(whoever|nobody|somebody|is told|are told|who asks)\b", re.IGNORECASE)
INSIDE = re.compile(
    r"actors\.(session|runner|layers)\."
    r"(?!(actor|environment|service|services|kinds|interceptors|limiter|tools|toolsets|mcp|stores|trees|sharing"
    r"|batches|draining|forks|memory|retries|reverts|rewinds|tracing|users|\w+\.(messages|rules|definitions|environment|versions|client|reminders))\b)"
)
"""Modules of the inside: all but the actor, what it is given when it is made, its services, the kinds of agents, messages, rules,
definitions, versions, tools and clients of features, features of one module, and the limiter of models, which is an actor with
clients of its own."""

RAY_ROOM = "runtime/cluster/ray"
INSIDE_RAY = re.compile(r"ray\.(core|(\w+\.)*_[a-z]\w*|cloudpickle\.cloudpickle)(\.\w+)*")
"""Names that Ray does not promise: with an underscore anywhere, or of its generated protocol."""

WORKERS_OF_RAY = ("global_worker", "_global_node", "_ray_params", "core_worker")
"""Attributes by which Ray's own objects are reached."""

SPEAKS_OF_RAY = re.compile(rf"\bray\b|{'|'.join(WORKERS_OF_RAY)}")

ABSENCE = f"{RAY_ROOM}/absence.py"
JUDGED = re.compile(r"RayActorError|ActorDiedError|ActorUnavailableError|(actor_)?preempted")
"""What a module would have to name to say by itself whether an actor is away or gone."""

EITHER_WAY = {
    "runtime/cluster/core/standby.py": "a lost process leads no more, whether Ray starts it again or not",
    "runtime/cluster/ray/connections.py": "it raises one itself, of actors that are gone for this program",
}
"""Modules that catch Ray's error of an actor that has not answered, and need not know whether that is away."""

RULER = re.compile(r"#\s*[-=*#]{4,}")
SEMANTICS = re.compile(r"semantics\.md\s+(?:sections?\s+)?(\d+(?:\.\d+)?(?:(?:,\s*|\s+and\s+|\s+to\s+)\d+(?:\.\d+)?)*)")
DOCUMENT = re.compile(r"[\w/.-]*\w\.md\b")
SEED = re.compile(r"\bseed 00\d")
CITING = re.compile(rf"\.md\b|{SEED.pattern}")
"""What each text has that cites a document, and is looked for quickly."""


def graph(given: Iterable[Source]) -> dict[str, set[str]]:
    """By module, the modules that it imports, out of those given."""
    by_name = {each.module: each for each in given}
    found = {}
    for name, each in by_name.items():
        targets = {f"{module}.{taken}" if f"{module}.{taken}" in by_name else module for module, taken in imports(each)}
        found[name] = {target for target in targets if target in by_name and target != name}
    return found


def import_circles(given: Sequence[Source]) -> list[str]:
    """Modules that import each other, directly or through others; imports in functions and for types count as well."""
    edges = graph(given)
    below = {name: reachable(name, edges) for name in edges}
    circles = {tuple(sorted(other for other in below[name] if name in below[other])) for name in edges if name in below[name]}
    return [f"these modules import each other: {', '.join(circle)}" for circle in sorted(circles)]


def circles_of_rooms(given: Sequence[Source]) -> list[str]:
    """Files and folders that stand side by side in one folder and import each other, directly or through others there.

    Without such circles everything in a folder can be read from the top down.
    """
    found = []
    edges = graph(given)
    parts = [name.split(".") for name in edges]
    for start in sorted({".".join(each[:depth]) + "." for each in parts for depth in range(1, len(each))}):
        inside = [name for name in edges if name.startswith(start)]
        room = {name: start + name.removeprefix(start).partition(".")[0] for name in inside}
        rooms: dict[str, set[str]] = {each: set() for each in room.values()}
        for name in inside:
            rooms[room[name]] |= {room[target] for target in edges[name] if target in room} - {room[name]}
        below = {each: reachable(each, rooms) for each in rooms}
        circles = {tuple(sorted(other for other in below[each] if each in below[other])) for each in rooms if each in below[each]}
        found += [f"these rooms import each other: {', '.join(circle)}" for circle in sorted(circles)]
    return found


def reachable(name: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        new = edges[left.pop()] - found
        found |= new
        left += new
    return found


def private_imports(given: Sequence[Source]) -> list[str]:
    """Names with an underscore that a module takes from another one."""
    found = []
    modules = {each.module for each in given}
    for each in given:
        known = {taken for module, taken in imports(each) if f"{module}.{taken}" in modules}
        for node in each.nodes:
            if isinstance(node, ast.ImportFrom):
                found += [f"{each.at(node.lineno)} imports {alias.name}" for alias in node.names if is_private(alias.name)]
            elif isinstance(node, ast.Attribute) and is_private(node.attr) and getattr(node.value, "id", "") in known:
                found.append(f"{each.at(node.lineno)} uses {ast.unparse(node)}")
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


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


def shared_names(given: Sequence[Source]) -> list[str]:
    """Names that several public classes have, but for those that have a reason."""
    places: dict[str, list[str]] = defaultdict(list)
    for each in given:
        for node in each.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in SHARED_NAMES:
                places[node.name].append(each.at(node.lineno))
    return [f"{name} is the name of several classes: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def too_much_any(given: Sequence[Source]) -> list[str]:
    """More `Any` than there may be in all; then every module that has some, the most first."""
    used = {each.path: sum(getattr(node, "id", "") == "Any" for node in each.nodes) for each in given}
    lines = sum(each.text.count("\n") for each in given)
    share = sum(used.values()) / lines * 1000
    if share < MAX_ANY_PER_1000:
        return []
    most = sorted(((number, str(path)) for path, number in used.items() if number), reverse=True)
    return [f"{share:.1f} Any in 1,000 lines, and under {MAX_ANY_PER_1000} are allowed", *(f"{path}: {n}" for n, path in most)]


def finalizers(given: Sequence[Source]) -> list[str]:
    """Methods `__del__`: in a circle of references Python ends what they need in any order. `weakref.finalize` holds it."""
    return [
        f"{each.at(node.lineno)} defines __del__, not weakref.finalize"
        for each in given
        for node in each.nodes
        if isinstance(node, ast.FunctionDef) and node.name == "__del__"
    ]


def section_rulers(given: Sequence[Source]) -> list[str]:
    """Comments that draw a line: each names the file, or the class, that is missing."""
    return [
        f"{each.at(line)} {comment}"
        for each in given
        if RULER.search(each.text)
        for line, comment in comments(each)
        if RULER.match(comment)
    ]


def banned_words(given: Sequence[Source]) -> list[str]:
    """Words in docstrings and comments in place of which the code's own names are to stand."""
    return [
        f"{each.at(line)} says {found[0]!r}"
        for each in that_say(BANNED, given)
        for line, text in prose(each)
        if line not in model_text_lines(each)
        for found in BANNED.finditer(text)
    ]


def question_words(given: Sequence[Source]) -> list[str]:
    """Docstrings of functions that begin as a question does: they are to name the thing, or say what is done."""
    return [
        f"{each.at(node.lineno)} {node.name} begins with {begins[0]!r}"
        for each in given
        for node in each.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (begins := re.match(r"(What|How|Which)\b", ast.get_docstring(node) or ""))
    ]


def folders_on_disk(given: Sequence[Source]) -> list[str]:
    """Folders of tests that may wait for a disk. See `tests.support.machine.folders`."""
    return [
        f"{each.at(call.lineno)} makes a folder where the disk is: quick_folder() has one in memory"
        for each in that_say(re.compile("TemporaryDirectory"), given)
        if each.path.name.startswith("test_")
        for call in each.nodes
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] == "TemporaryDirectory"
        and not any(keyword.arg == "dir" for keyword in call.keywords)
    ]


def modules_taken_out(given: Sequence[Source]) -> list[str]:
    """Tests that take a module out of `sys.modules`, and so leave its package with another one than was there before."""
    known = re.compile(r"delitem\(sys\.modules\b|sys\.modules\.pop\(|del sys\.modules\b")
    return [
        f"{each.at(node.lineno)} takes a module out: tests.support.modules puts it back in both places"
        for each in that_say(known, given)
        if not each.path.is_relative_to("tests/support")
        for node in each.nodes
        if isinstance(node, ast.Call | ast.Delete) and known.match(ast.unparse(node).removeprefix("monkeypatch."))
    ]


def inside_imported(given: Sequence[Source]) -> list[str]:
    """Imports of the inside of Session actors and Runners, and strings that name a part of it, in tests of behaviour."""
    found = []
    for each in that_say(re.compile(r"actors\.(session|runner|layers)\b"), given):
        if not each.path.as_posix().startswith(tuple(OF_THE_INSIDE)):
            named = [f"{module}.{taken}" for module, taken in imports(each)]
            named += [str(node.value) for node in each.nodes if isinstance(node, ast.Constant)]
            found += [f"{each.path} uses {name}, which is inside" for name in named if INSIDE.match(name)]
    return found


def model_text_lines(of: Source) -> set[int]:
    """The lines of the functions and classes in MODEL_TEXTS."""
    named = [node for node in of.tree.body if getattr(node, "name", None) == MODEL_TEXTS.get(of.path.as_posix(), "")]
    return {line for node in named for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def unknown_citations(given: Sequence[Source]) -> list[str]:
    """References to documents, or to numbers in semantics.md, that are not there."""
    known = semantics_numbers()
    found = []
    citing = that_say(CITING, given)
    parse(citing)
    for each in citing:
        for line, text in prose(each):
            for cited in SEMANTICS.finditer(text):
                missing = [number for number in re.findall(r"\d+(?:\.\d+)?", cited[1]) if number not in known]
                found += [f"{each.at(line)} cites semantics.md {number}, which is not there" for number in missing]
            missing = [name for name in DOCUMENT.findall(text) if not is_there(name, each.path)]
            found += [f"{each.at(line)} cites {name}, which is not there" for name in missing + SEED.findall(text)]
    return found


OF_USERS = {"SKILL.md"}
"""Documents that users write."""


def is_there(name: str, path: Path) -> bool:
    """A document is named by its path, by its name in `docs`, or by its name beside the file that names it."""
    return name in OF_USERS or any((ROOT / folder / name).is_file() for folder in ("", "docs", path.parent))


def calls_past_budgets(given: Iterable[Source]) -> list[str]:
    """Places that call a model, and are not among those that budgets were asked for."""
    found = []
    for each in given:
        for node in each.nodes:
            if not isinstance(node, ast.Call) or each.path.as_posix() in MODEL_CALLERS:
                continue
            called = ast.unparse(node.func)
            if called == "Responses" or called.endswith(".generate"):
                found.append(f"{each.at(node.lineno)} calls a model, whatever budgets say: have interceptors call it")
    return found


def answers_dropped(given: Iterable[Source]) -> list[str]:
    """Places that ask budgets, and take no notice of the answer."""
    found = []
    for each in given:
        for node in each.nodes:
            dropped = node.value if isinstance(node, ast.Expr) else None
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["_"]:
                dropped = node.value
            dropped = dropped.value if isinstance(dropped, ast.Await) else dropped
            if isinstance(dropped, ast.Call) and getattr(dropped.func, "attr", "") in BUDGET_QUESTIONS:
                found.append(f"{each.at(dropped.lineno)} drops the answer of {ast.unparse(dropped.func)}")
    return found


@cache
def semantics_numbers() -> frozenset[str]:
    """The sections of semantics.md and their numbered paragraphs: "5" and "5.4"."""
    path = ROOT / "docs" / "semantics.md"
    section, found = "", set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        if heading := re.match(r"##? (\d+)\.? ", line):
            section = heading[1]
            found.add(section)
        elif paragraph := re.match(r"#{3,} \d+\.(\d+)\.? |(\d+)\. ", line):
            found.add(f"{section}.{paragraph[1] or paragraph[2]}")
    return frozenset(found)


Check = Callable[[Sequence[Source]], list[str]]

CHECKED: Sequence[tuple[Check, Sequence[str]]] = [
    (import_circles, PACKAGES),
    (circles_of_rooms, PACKAGES),
    (private_imports, PACKAGES),
    (private_names_of_ray, [*PACKAGES, "examples"]),
    (judges_of_absence, PACKAGES),
    (shared_names, PACKAGES),
    (too_much_any, PACKAGES),
    (finalizers, PACKAGES),
    (section_rulers, PACKAGES),
    (question_words, PACKAGES),
    (banned_words, PACKAGES),
    (unknown_citations, [*PACKAGES, "tests", "examples"]),
    (modules_taken_out, ["tests"]),
    (inside_imported, ["tests"]),
    (folders_on_disk, ["tests"]),
    (calls_past_budgets, ["actors/agent", "actors/behaviours", "actors/rules", "runtime"]),
    (answers_dropped, PACKAGES),
]
"""The folders whose sources each check is for."""


@pytest.mark.parametrize(("check", "folders"), CHECKED, ids=[check.__name__ for check, _ in CHECKED])
def test_no_check_has_a_complaint(check: Check, folders: Sequence[str]) -> None:
    found = check(sources(*folders))
    assert not found, "\n".join([f"{len(found)} places:", *found])


@pytest.mark.parametrize(
    ("check", "texts", "complaint"),
    [
        (import_circles, {"a/x.py": "from a import y", "a/y.py": "def f():\n    import a.x"}, "import each other: a.x, a.y"),
        (private_imports, {"a/x.py": "from a.y import _z"}, "a/x.py:1 imports _z"),
        (private_imports, {"a/x.py": "from a import y\ny._z()", "a/y.py": ""}, "a/x.py:2 uses y._z"),
        (
            circles_of_rooms,
            {"a/b/x.py": "from a.c.x import y", "a/c/x.py": "", "a/c/y.py": "import a.b.y", "a/b/y.py": ""},
            "these rooms import each other: a.b, a.c",
        ),
        (
            shared_names,
            {"a/x.py": "class A: ...", "a/y.py": "class A: ..."},
            "A is the name of several classes: a/x.py:1, a/y.py:1",
        ),
        (too_much_any, {"a/x.py": "x: Any\n"}, "1000.0 Any in 1,000 lines"),
        (finalizers, {"a/x.py": "class A:\n    def __del__(self): ..."}, "a/x.py:2 defines __del__"),
        (section_rulers, {"a/x.py": "    # ------ life\n"}, "a/x.py:1 # ------ life"),
        (banned_words, {"a/x.py": '"""It waits for\n    whoever comes."""'}, "a/x.py:1 says 'whoever'"),
        (banned_words, {"a/x.py": "x = 1  # The Runner is\n# told of it."}, "a/x.py:1 says 'is told'"),
        (question_words, {"a/x.py": 'def f():\n    """What it has."""'}, "a/x.py:1 f begins with 'What'"),
        (modules_taken_out, {"a/x.py": "monkeypatch.delitem(sys.modules, 'b')"}, "a/x.py:1 takes a module out"),
        (modules_taken_out, {"a/x.py": "del sys.modules['b']"}, "a/x.py:1 takes a module out"),
        (inside_imported, {"a/x.py": "from actors.session.log import logs"}, "uses actors.session.log.logs"),
        (inside_imported, {"a/x.py": "from actors.layers.retention import service"}, "uses actors.layers.retention.service"),
        (inside_imported, {"a/x.py": "patch('actors.runner.turns.HOLD_S')"}, "uses actors.runner.turns.HOLD_S"),
        (folders_on_disk, {"a/test_x.py": "with tempfile.TemporaryDirectory() as folder: ..."}, "a/test_x.py:1 makes a folder"),
        (unknown_citations, {"a/x.py": '"""See semantics.md 5.1 and 5.99."""'}, "cites semantics.md 5.99"),
        (unknown_citations, {"a/x.py": '"""See semantics.md section 99."""'}, "cites semantics.md 99"),
        (unknown_citations, {"a/x.py": "# See docs/nothing.md.\n"}, "cites docs/nothing.md"),
        (unknown_citations, {"a/x.py": "# See seed 001.\n"}, "cites seed 001"),
        (calls_past_budgets, {"a/x.py": "async with Responses(m, r, stream=True) as s: ..."}, "a/x.py:1 calls a model"),
        (calls_past_budgets, {"a/x.py": "m.generate(r)"}, "a/x.py:1 calls a model"),
        (answers_dropped, {"a/x.py": "async def f():\n    await c.reserve_if_room(r)"}, "a/x.py:2 drops the answer"),
        (answers_dropped, {"a/x.py": "async def f():\n    _ = await s.reserve(m)"}, "a/x.py:2 drops the answer"),
        (private_names_of_ray, {"a/x.py": "from ray._private import services"}, "a/x.py:1 uses ray._private.services"),
        (private_names_of_ray, {"a/x.py": "def f():\n    import ray._raylet"}, "a/x.py:2 uses ray._raylet"),
        (private_names_of_ray, {"a/x.py": "from ray import _private"}, "a/x.py:1 uses ray._private"),
        (private_names_of_ray, {"a/x.py": "from ray.core.generated import gcs_pb2"}, "uses ray.core.generated.gcs_pb2"),
        (private_names_of_ray, {"a/x.py": "ray._private.worker.x()"}, "a/x.py:1 uses ray._private.worker.x"),
        (private_names_of_ray, {"a/x.py": "import_module('ray._common.usage')"}, "a/x.py:1 uses ray._common.usage"),
        (private_names_of_ray, {"a/x.py": "worker.global_worker.node"}, "a/x.py:1 uses global_worker"),
        (private_names_of_ray, {f"{RAY_ROOM}/x.py": "class A:\n    from ray._private import node"}, "uses ray._private.node"),
    ],
)
def test_every_check_finds_what_it_looks_for(check: Check, texts: dict[str, str], complaint: str) -> None:
    assert complaint in "\n".join(check([source(path, text) for path, text in texts.items()]))


@pytest.mark.parametrize(
    ("check", "texts"),
    [
        (import_circles, {"a/x.py": "from a.y import z", "a/y.py": "import os"}),
        (private_imports, {"a/x.py": "from __future__ import annotations\nself._y()"}),
        (circles_of_rooms, {"a/b/x.py": "from a.b import y", "a/b/y.py": "from a.c import z", "a/c.py": "from d import e"}),
        (shared_names, {"a/x.py": "class _A: ...\nclass B: ...", "a/y.py": "class _A: ..."}),
        (section_rulers, {"a/x.py": "# - a list\nx = '# ------'"}),
        (banned_words, {"a/x.py": "raise Error('nobody is told')"}),
        (modules_taken_out, {"a/x.py": "monkeypatch.setitem(sys.modules, 'b', None)\nx = 'del sys.modules[1]'"}),
        (inside_imported, {"a/x.py": "from actors.session.actor import SessionActor"}),
        (inside_imported, {"tests/unit/inside/x.py": "from actors.session.log import logs"}),
        (folders_on_disk, {"a/test_x.py": "quick_folder()\nTemporaryDirectory(dir=place)"}),
        (question_words, {"a/x.py": 'def f():\n    """Tell what it has."""'}),
        (unknown_citations, {"a/x.py": "x = 'docs/nothing.md'\n# See README.md.\n"}),
        (calls_past_budgets, {"actors/behaviours/interceptor.py": "Responses(m, r, stream=True)"}),
        (calls_past_budgets, {"a/x.py": "call.responses(stream=True)"}),
        (answers_dropped, {"a/x.py": "async def f():\n    reply = await c.reserve(m)\n    return await s.reserve(r)"}),
        (private_names_of_ray, {"a/x.py": '"""See ray._private."""\nimport ray\nray.util.get_node_ip_address()'}),
        (private_names_of_ray, {f"{RAY_ROOM}/x.py": "A = P('ray._private', 'x')\ndef f():\n    import ray._raylet"}),
    ],
)
def test_no_check_complains_without_a_reason(check: Check, texts: dict[str, str]) -> None:
    assert check([source(path, text) for path, text in texts.items()]) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from ray.exceptions import RayActorError", "a/x.py:1 uses RayActorError"),
        ("import ray\ntry:\n    f()\nexcept ray.exceptions.ActorDiedError:\n    pass", "a/x.py:4 uses ActorDiedError"),
        ("def f(error):\n    return error.preempted", "a/x.py:2 uses preempted"),
        (f"from {ABSENCE[:-3].replace('/', '.')} import AbsentActorError", "a/x.py does not ask is_away"),
    ],
)
def test_each_judge_of_absence_is_found(text: str, complaint: str) -> None:
    assert judges_of_absence([source("a/x.py", text)]) == [complaint]
