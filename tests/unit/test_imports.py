"""Imports of `actors`: any package can be the first, and no one knows `runtime`, not even by a name in a string."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.support.sources import Source, source, sources

PROGRAM = """
import importlib, os, sys, traceback

# Of others, and slow; each of ours is loaded anew in a process of its own.
import msgspec, pydantic

for name in sys.stdin.read().split():
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except BaseException:
            print(f"{name}: {traceback.format_exc().splitlines()[-1]}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.full
def test_every_package_can_be_imported_first() -> None:
    names = sorted({each.module.rpartition(".")[0] for each in sources("actors")} - {""})
    assert len(names) > 30
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=" ".join(names), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == []


MODULE = re.compile(r"runtime(\.\w+)*")
BY_NAME = {"importlib", "import_module", "__import__", "pkgutil", "runpy"}

PUBLIC_NAMES = "actors/__init__.py"
"""Loads the public names when they are used, by names of modules that stand in it."""


def test_no_text_in_actors_names_a_module_of_runtime() -> None:
    found = {each.path.as_posix(): named(each) for each in sources("actors")}
    assert {line.partition(": ")[2] for line in found.pop(PUBLIC_NAMES)} == {"importlib", "import_module"}
    assert [line for lines in found.values() for line in lines] == []


def test_a_module_named_in_a_text_or_imported_by_name_is_found() -> None:
    text = '"""See `runtime.models`."""\nfrom importlib import import_module\nimport_module("runtime.models.gemini")\n'
    found = named(source("actors/wrong.py", text))
    assert {line.partition(": ")[2] for line in found} == {"importlib", "import_module", "runtime.models.gemini"}


def named(of: Source) -> list[str]:
    """The modules of runtime that stand in texts of a file, and its ways to import by name."""
    found = []
    for node in of.nodes:
        match node:
            case ast.Constant(value=str(text)) if MODULE.fullmatch(text):
                names = [text]
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=module, names=aliases):
                names = [module or "", *(alias.name for alias in aliases)]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names = [name]
            case _:
                continue
        found += [f"{of.at(node.lineno)}: {name}" for name in names if name in BY_NAME or MODULE.fullmatch(name)]
    return found
