"""Tracebacks of code that is in no file show its lines in other processes, too."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors.tracebacks import foreign_traceback
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing.definitions import pack_tree, unpack
from runtime.cluster.packing.pickling import MAX_SOURCE, TOGETHER, install_sources, sources_of

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
