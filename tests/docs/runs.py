"""Runs the Python blocks of the documentation, as a reader would: in an empty folder, from the first line to the last.

Comments in the Markdown above a block say what a test has to do for it:

- `continues`: it goes on where the block above it ended, with the same names.
- `replies: […]`: its Gemini models answer with these replies (see ScriptedModel), JSON; without it none of them is asked.
- `on Ray`: it needs the engine on Ray; all others run on the local engine, whatever they say.
- `not run: <why>`: it needs what no test has; its syntax, its imports, its names and its keywords are checked.

A `text output` block below it says what it prints.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.models import registry
from tests.docs.pages import Block


def chain(block: Block, among: Sequence[Block]) -> list[Block]:
    """The block with those before it that it continues, in their order."""
    index = list(among).index(block)
    start = index
    while among[start].note("continues") is not None:
        start -= 1
        assert among[start].page == block.page, f"{block} continues nothing"
    return list(among[start : index + 1])


def run(blocks: Sequence[Block], patch: pytest.MonkeyPatch) -> str:
    """Run blocks one after the other. Returns what the last one prints; Runtimes that they leave open are closed."""
    replies = [reply for block in blocks for reply in json.loads(block.note("replies") or "[]")]
    model = ScriptedModel(replies)
    patch.setattr(registry, "FACTORIES", dict.fromkeys(registry.FACTORIES, lambda name: model))
    if not any(block.note("on Ray") is not None for block in blocks):
        # The documentation shows the default, "ray".
        patch.setitem(_keyword_defaults(Runtime.__init__), "engine", "local")
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for block in blocks:
            printed = StringIO()
            with redirect_stdout(printed):
                exec(_compiled(block), names)
    finally:
        for runtime in [value for value in names.values() if isinstance(value, Runtime)]:
            runtime.close()
    assert model.remaining == 0
    return printed.getvalue()


def _compiled(block: Block) -> Any:
    # With empty lines before it, so that a traceback names the line of the page.
    return compile("\n" * (block.line - 1) + block.code, str(block.page), "exec", dont_inherit=True)


def _keyword_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    defaults: dict[str, Any] | None = inspect.unwrap(function).__kwdefaults__
    assert defaults is not None
    return defaults


def unknown_names(block: Block) -> list[str]:
    """Names, attributes and keywords in a block that are nowhere defined. Raises SyntaxError, ImportError."""
    tree = ast.parse(block.code)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported: dict[str, Any] = {}
    exec(compile(ast.Module(body=[*imports], type_ignores=[]), str(block), "exec"), imported)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    defined = {node.id for node in names if isinstance(node.ctx, ast.Store)} | imported.keys() | vars(builtins).keys()
    defined |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    defined |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    unknown = [node.id for node in names if node.id not in defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            if not hasattr(imported[node.value.id], node.attr):
                unknown.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported:
            parameters = inspect.signature(imported[node.func.id]).parameters.values()
            known = {each.name for each in parameters}
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                unknown += [f"{node.func.id}({each.arg}=)" for each in node.keywords if each.arg not in known]
    return unknown
