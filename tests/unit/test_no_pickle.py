"""Nothing pickled is read from a store or a socket: only definitions travel so, and only by the way that Ray itself uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from tests.support.sources import sources

PICKLERS = {"cloudpickle", "copyreg", "dill", "joblib", "marshal", "pickle", "pickletools", "shelve"}
"""Modules whose reading runs code, or helps to."""

WRITING = ("dumps", "dump", "register_pickle_by_value")
"""Their functions that read nothing."""


def modules() -> Iterator[tuple[str, Sequence[ast.AST]]]:
    return ((each.path.as_posix(), each.nodes) for each in sources("actors", "runtime"))


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """The last and the first name of everything that a module imports."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            names |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__"):
            names |= {part for arg in node.args if isinstance(arg, ast.Constant) for part in str(arg.value).split(".")}
    return names


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_only_the_cluster_and_what_tells_models_apart_know_a_pickler() -> None:
    knows = {path for path, nodes in modules() if imported(nodes) & PICKLERS}
    assert knows == {
        # Its bytes are compared, and never read.
        "actors/layers/trees/fingerprints.py",
        "runtime/cluster/packing/pickling.py",
        "runtime/cluster/tool_tasks.py",
    }


def calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in nodes if isinstance(node, ast.Call))


def test_what_is_unpickled_are_definitions_and_tool_calls_which_their_own_driver_has_pickled() -> None:
    read = {
        (path, ast.unparse(call))
        for path, nodes in modules()
        for call in calls(nodes)
        if _name(call.func) not in WRITING and ast.unparse(call.func).partition(".")[0] in PICKLERS
    }
    assert read == {
        ("runtime/cluster/packing/pickling.py", "cloudpickle.Pickler(file)"),
        ("runtime/cluster/packing/pickling.py", "pickle.Unpickler(BytesIO(shared + own))"),
        ("runtime/cluster/packing/pickling.py", "cloudpickle.loads(pickled)"),
        ("runtime/cluster/tool_tasks.py", "cloudpickle.loads(pickled)"),
    }


def test_what_imports_alone_is_read_by_few() -> None:
    read = {(path, ast.unparse(call)) for path, nodes in modules() for call in calls(nodes) if _name(call.func) == "unpickle"}
    assert read == {
        ("runtime/cluster/core/runner.py", "unpickle(spec.plugins)"),
        ("runtime/cluster/core/runner.py", "unpickle(packed.plugins)"),
        ("runtime/cluster/packing/pickling.py", "unpickle(zlib.decompress(b''.join(chunks)))"),
        ("runtime/cluster/packing/pickling.py", "unpickle(pickled_value)"),
        ("runtime/cluster/transport/plans.py", "unpickle(pickled)"),
        # What the deployment itself has kept: whether another release can load it.
        ("runtime/cluster/packing/versions.py", "unpickle(pickled)"),
    }


RUNS_CODE = "runtime/integrations/code/child.py"
"""The program of `python_tool`, a process of its own. No other module imports it."""


def test_no_text_is_run_as_code_but_in_the_process_that_is_there_for_it() -> None:
    named = [ast.unparse(call.func) for path, nodes in modules() for call in calls(nodes) if path != RUNS_CODE]
    found = {name for name in named if name.rpartition(".")[2] in ("eval", "exec", "compile")}
    # Of a regular expression, and of statements to SQL.
    assert found == {"re.compile", "query.compile", "statement.compile"}
    assert [path for path, nodes in modules() if "child" in imported(nodes)] == []


def test_no_column_of_a_store_is_pickled() -> None:
    stores = [nodes for path, nodes in modules() if path.startswith("runtime/stores/")]
    assert len(stores) > 5
    assert not any("PickleType" in imported(nodes) | {_name(call.func) for call in calls(nodes)} for nodes in stores)
