"""docs/architecture.md speaks of classes that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def defined() -> set[str]:
    """The names of all classes, and of all types that are given a name, in actors and runtime."""
    names: set[str] = set()
    for package in ("actors", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
            assigned = [node.targets for node in tree.body if isinstance(node, ast.Assign)]
            assigned += [[node.target] for node in tree.body if isinstance(node, ast.AnnAssign)]
            names |= {target.id for targets in assigned for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_class_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)\b[^`]*`", text))
    assert len(named) > 40
    assert sorted(named - defined()) == []
