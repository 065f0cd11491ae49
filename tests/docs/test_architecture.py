"""docs/architecture.md and the pages beside it speak of classes that are there."""

from __future__ import annotations

import ast
import re

from tests.support.sources import ROOT, sources


def defined() -> set[str]:
    """The names of all classes, and of all types that are given a name, in actors and runtime."""
    names: set[str] = set()
    for each in sources("actors", "runtime"):
        names |= {node.name for node in each.nodes if isinstance(node, ast.ClassDef)}
        assigned = [node.targets for node in each.tree.body if isinstance(node, ast.Assign)]
        assigned += [[node.target] for node in each.tree.body if isinstance(node, ast.AnnAssign)]
        names |= {target.id for targets in assigned for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_class_that_the_architecture_names_is_there() -> None:
    pages = ("architecture.md", "extending.md", "layers.md")
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in pages)
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)\b[^`]*`", text))
    assert len(named) > 40
    assert sorted(named - defined()) == []
