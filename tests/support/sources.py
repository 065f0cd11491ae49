"""The Python files of the project as text and syntax trees, for tests of their shape."""

from __future__ import annotations

import ast
import gc
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "raygrove", "runtime")
PROGRAMS = ("tests", "examples")


@dataclass(frozen=True)
class Source:
    """A Python file: its path from the project's root, and its text."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Files of which only the size matters are not parsed."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """All of the tree, in the order of `ast.walk`, which takes twice as long."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            for value in vars(node).values():
                if isinstance(value, ast.AST):
                    found.append(value)
                elif isinstance(value, list):
                    found += [each for each in value if isinstance(each, ast.AST)]
        return found

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


def source(path: str, text: str) -> Source:
    return Source(Path(path), text)


def sources(*folders: str) -> tuple[Source, ...]:
    """All Python files below folders of the project. Those of its packages are parsed."""
    return tuple(each for folder in folders for each in _below(folder))


@cache
def _below(folder: str) -> tuple[Source, ...]:
    whole, _, part = folder.partition("/")
    if part:
        return tuple(each for each in _below(whole) if each.path.is_relative_to(folder))
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts)
    found = tuple(source(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths)
    if folder in PACKAGES:
        parse(found)
    return found


def parse(given: Iterable[Source]) -> None:
    """Parse many files at once, and keep the collector of garbage from their nodes.

    It would look through a million of them, for longer than it takes to parse them, and again in each test that runs it.
    """
    looks = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        for each in given:
            _ = each.nodes
        gc.freeze()
    finally:
        if looks:
            gc.enable()


def that_say(pattern: re.Pattern[str], given: Iterable[Source]) -> list[Source]:
    """Those in whose text a pattern is found, across the ends of lines and comments too.

    To take the comments out of all sources is a hundred times as dear.
    """
    return [each for each in given if pattern.search(" ".join(each.text.replace("#", " ").split()))]


def imports(of: Source) -> Iterator[tuple[str, str]]:
    """What a module imports, wherever in it: the module, and the name taken from it, or ""."""
    for node in of.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def docstrings(of: Source) -> Iterator[tuple[ast.Constant, str]]:
    """The strings that stand by themselves: of modules, classes and functions, and behind constants."""
    for node in of.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value, node.value.value


def comments(of: Source) -> Iterator[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(of.text).readline)
    return ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def prose(of: Source) -> Iterator[tuple[int, str]]:
    """Docstrings and comments with their lines; comments that follow each other are one text, and white space is one blank."""
    for node, text in docstrings(of):
        yield node.lineno, " ".join(text.split())
    block, first, last = "", 0, -1
    for line, comment in [*comments(of), (0, "")]:
        if line != last + 1 and block:
            yield first, block
        if line != last + 1:
            block, first = "", line
        block, last = f"{block} {comment.lstrip('#: ')}".strip(), line
