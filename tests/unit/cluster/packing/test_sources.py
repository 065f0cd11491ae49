"""Code of users in other processes: lines of code that is in no file, and modules that two threads import at once."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors.tracebacks import foreign_traceback
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing.definitions import pack_tree, unpack
from runtime.cluster.packing.pickling import MAX_SOURCE, TOGETHER, import_alone, install_sources, sources_of, unpickle

CELL = "<cell 1 of a notebook>"
CODE = "def greet(context):\n    return {}[context]\n"


def known(name: str, text: str) -> None:
    """Have Python know lines of code, as a notebook does."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def defined(name: str, text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def test_the_lines_travel_with_the_agents_that_have_the_code() -> None:
    known(CELL, CODE)
    known("<another cell>", "print(1)")
    namespace = defined(CELL, CODE)
    root = LlmAgent(name="a", model=PatternModel([]), before_agent_callback=namespace["greet"])
    packed = pack_tree(AgentTree(root), lambda model: model)["a"]
    del linecache.cache[CELL]
    spec = unpack(packed)
    with pytest.raises(KeyError) as raised:
        spec.hooks("before_agent_callback")[0].function("ada")
    assert f'File "{CELL}", line 2, in greet\n    return {{}}[context]' in foreign_traceback(raised.value)
    assert b"print(1)" not in packed


def test_large_code_stays_at_home_and_files_are_read_where_they_are(tmp_path: Path) -> None:
    known(CELL, "#" * (MAX_SOURCE + 1))
    assert sources_of([CELL.encode()]) == [{}]
    there = tmp_path / "there.py"
    there.write_text("1\n")
    install_sources({str(there): "2\n"})
    assert linecache.getline(str(there), 1) == "1\n"


def test_the_lines_of_a_large_tree_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known(CELL, CODE)
    known("<another cell>", "print(1)")
    looked: list[str] = []

    def exists(path: str) -> bool:
        looked.append(path)
        return False

    monkeypatch.setattr("os.path.exists", exists)
    pickles = [b"..%d <cell 1 of a note" % number for number in range(TOGETHER)]
    # The name is in one of them, and would be in the next if they were one.
    pickles += [b"book> ..", CELL.encode(), b"", CELL.encode() + b"<another cell>"]
    *plain, one, none, both = sources_of(pickles)
    assert plain == [{}] * (TOGETHER + 1)
    assert (one, none, both) == ({CELL: CODE}, {}, {CELL: CODE, "<another cell>": "print(1)"})
    assert len(looked) == len(set(looked))
    # A tree of agents with models of their own holds no mapping for each.
    assert len({id(each) for each in plain}) == 1


class SlowPackages:
    """Finds packages, which take their time before their code begins to run.

    Attributes:
        found: a package has been found.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found = threading.Event()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Find a package by its name; modules in packages are found by others."""
        place = self._folder / name
        if not place.is_dir():
            return None
        loader = _SlowLoader(name, str(place / "__init__.py"))
        loader.found = self.found
        return spec_from_file_location(name, loader=loader, submodule_search_locations=[str(place)])


class _SlowLoader(SourceFileLoader):
    found: threading.Event

    def create_module(self, spec: ModuleSpec) -> None:
        self.found.set()
        time.sleep(0.1)


def global_pickle(module: str) -> bytes:
    """A pickle of the class Thing as a module has it."""
    return f"c{module}\nThing\n.".encode()


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_package_and_its_module_are_imported_by_two_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_imported: bool
) -> None:
    name = f"imported_by_two_{is_imported}".lower()
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(f"from {name}.module import Thing\n")
    (folder / "module.py").write_text("class Thing: pass\n")
    finder = SlowPackages(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with ThreadPoolExecutor() as threads:
        first = threads.submit(import_alone, name) if is_imported else threads.submit(unpickle, global_pickle(name))
        assert finder.found.wait(10)
        second = threads.submit(unpickle, global_pickle(f"{name}.module"))
        first.result()
        assert second.result().__name__ == "Thing"
