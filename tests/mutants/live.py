"""A mutant in this process: quicker than in a copy of the checkout, and only where the bodies of functions change."""

from __future__ import annotations

import ast
import builtins
import copy
import dis
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutants.mutant import ROOT, Mutant

Function = ast.FunctionDef | ast.AsyncFunctionDef


class CannotPutInError(Exception):
    """Raised when a mutant changes more than the bodies of functions, or a function that cannot be reached."""


@contextmanager
def putting_in(mutant: Mutant) -> Iterator[None]:
    """Have functions and methods do what a mutant says, within the block, wherever they were imported to.

    They keep their objects and get other code. What runs already goes on as it was, and so do functions that others have
    made. Constants, signatures, decorators, bases and imports were taken over by other modules, so a change of them is refused.

    Raises:
        StaleMutantError: its old text is not once in its file.
        CannotPutInError: it changes something else.
    """
    codes = [pair for file, text in mutant.texts().items() for pair in _codes(mutant.name, file, text)]
    before = [(function, function.__code__) for function, _ in codes]
    try:
        for function, code in codes:
            _give(mutant.name, function, code)
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _codes(name: str, file: str, text: str) -> Iterator[tuple[FunctionType, CodeType]]:
    """The functions that a file has otherwise, and their other code."""
    module = import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    before, after = ast.parse((ROOT / file).read_text()), ast.parse(text)
    code = compile(text, file, "exec", dont_inherit=True)
    for path, old, new in _changed(name, before.body, after.body, ()):
        function = _function(module, path, _first_line(old))
        if function is None:
            raise CannotPutInError(f"mutant {name}: there is no function {'.'.join(path)} in {file} as it was imported")
        yield (
            function,
            next(each for each in _within(code) if (each.co_name, each.co_firstlineno) == (new.name, _first_line(new))),
        )


def _changed(
    name: str, before: Sequence[ast.stmt], after: Sequence[ast.stmt], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Function, Function]]:
    """The functions and methods whose bodies differ."""
    if len(before) != len(after):
        raise CannotPutInError(f"mutant {name} changes more than the bodies of functions: {'.'.join(path) or 'the module'}")
    for old, new in zip(before, after, strict=True):
        if ast.dump(old) == ast.dump(new):
            continue
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef) and _head(old) == _head(new):
            yield from _changed(name, old.body, new.body, (*path, old.name))
        elif isinstance(old, Function) and isinstance(new, Function) and _head(old) == _head(new):
            yield (*path, old.name), old, new
        else:
            raise CannotPutInError(f"mutant {name} changes more than the bodies of functions: {ast.unparse(new)}")


def _head(definition: ast.ClassDef | Function) -> str:
    head = copy.copy(definition)
    head.body = []
    return ast.dump(head)


def _first_line(definition: Function) -> int:
    return min(each.lineno for each in (definition, *definition.decorator_list))


def _within(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions that a code makes."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _within(constant)


def _function(module: ModuleType, path: Sequence[str], line: int) -> FunctionType | None:
    """What a name of a module, or of a class, stands for: the function of several of a name that begins on a line."""
    found: Any = module
    for name in path:
        found = vars(found).get(name)
    return next((each for each in _behind(found) if each.__code__.co_firstlineno == line), None)


def _behind(found: Any) -> Iterator[FunctionType]:
    """A function, and those that decorators have wrapped."""
    if isinstance(found, FunctionType):
        yield found
    attributes = ("fget", "fset", "fdel") if isinstance(found, property) else ("__func__", "__wrapped__", "func")
    for name in attributes:
        if (inner := getattr(found, name, None)) is not None:
            yield from _behind(inner)


def _give(name: str, function: FunctionType, code: CodeType) -> None:
    """Have a function do what a code does."""
    known = {*function.__globals__, *vars(builtins)}
    codes = [code, *_within(code)]
    taken = {each.argval for one in codes for each in dis.get_instructions(one) if each.opname == "LOAD_GLOBAL"}
    if missing := taken - known:
        raise CannotPutInError(f"mutant {name}: {function.__module__} has no {', '.join(sorted(missing))}")
    try:
        function.__code__ = code
    except ValueError as error:
        raise CannotPutInError(f"mutant {name}: {function.__qualname__} has other variables from outside: {error}") from None
