"""Code of users that threads of one process need at the same time."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from runtime.cluster.packing.pickling import import_alone, unpickle


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
