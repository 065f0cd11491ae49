"""Every package of `actors` can be the first that a process imports: drivers, tools and actors begin with different ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.sources import sources

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
