"""What the package promises to its users."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
import typing
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import actors
import actors.definitions.tools
import actors.errors
import actors.testing
import raygrove
import raygrove.errors
import raygrove.models
import raygrove.testing
import raygrove.web
import runtime
import runtime.testing
import runtime.web


def in_order(names: Iterable[str]) -> list[str]:
    """Constants first, as ruff has them."""
    return sorted(names, key=lambda name: (not name.isupper(), name))


def test_all_is_sorted_and_complete() -> None:
    assert actors.__all__ == in_order(actors.__all__)
    assert set(dir(actors)) >= set(actors.__all__)
    assert {name for name in actors.__all__ if getattr(actors, name, None) is None} == set()
    with pytest.raises(AttributeError, match="module 'actors' has no attribute 'nothing'"):
        _ = actors.nothing


@pytest.mark.parametrize(
    ("module", "unused"), [("actors", "msgspec"), ("runtime", "pydantic"), ("raygrove.plugin.hooks", "actors")]
)
def test_a_name_is_loaded_when_it_is_used(module: str, unused: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}, sys; sys.exit({unused!r} in sys.modules)"], check=False)
    assert done.returncode == 0


def test_all_of_every_package_is_sorted_and_holds_nothing_that_is_not_there() -> None:
    for module in modules():
        names = getattr(module, "__all__", [])
        assert list(names) == in_order(names), module.__name__
        assert [name for name in names if not hasattr(module, name)] == []


def test_every_public_name_has_a_docstring() -> None:
    missing = [name for name in actors.__all__ if not inspect.getdoc(getattr(actors, name))]
    assert missing == []


def test_every_public_class_function_and_method_says_what_it_does_in_a_sentence() -> None:
    missing = [name for module in modules() for name, thing in things(module) if not _sentence(thing)]
    assert missing == []


def _sentence(thing: object) -> bool:
    first = (getattr(thing, "__doc__", None) or "").strip().partition("\n\n")[0]
    return first.rstrip(")").endswith((".", "?", "…", ":")) or "Raises" in first


def test_every_public_function_is_annotated() -> None:
    bare = []
    for module in modules():
        for name, thing in things(module):
            if inspect.isfunction(thing):
                hinted = [hint for hint in thing.__annotations__ if hint != "return"]
                wanted = [parameter for parameter in inspect.signature(thing).parameters if parameter not in ("self", "cls")]
                if "return" not in thing.__annotations__ or len(hinted) < len(wanted):
                    bare.append(name)
    assert bare == []


def modules() -> list[ModuleType]:
    found = [actors]
    for info in pkgutil.walk_packages(actors.__path__, "actors."):
        found.append(import_module(info.name))
    return found


def things(module: ModuleType) -> list[tuple[str, object]]:
    """The public classes and functions that a module defines, and their public methods."""
    found: list[tuple[str, object]] = []
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            found.append((f"{module.__name__}.{name}", thing))
            methods = ((key, value) for key, value in vars(thing).items() if not key.startswith("_"))
            found += [(f"{module.__name__}.{name}.{key}", value) for key, value in methods if inspect.isfunction(value)]
        elif inspect.isfunction(thing):
            found.append((f"{module.__name__}.{name}", thing))
    return found


def test_type_hints_of_the_public_classes_can_be_resolved() -> None:
    for name in actors.__all__:
        thing = getattr(actors, name)
        if inspect.isclass(thing):
            typing.get_type_hints(thing)


@pytest.mark.parametrize("module", [runtime, runtime.testing, runtime.web], ids=lambda module: module.__name__)
def test_a_package_has_every_name_that_it_promises_with_a_docstring_and_no_other(module: Any) -> None:
    assert module.__all__ == sorted(module.__all__)
    assert [name for name in module.__all__ if getattr(module, name).__name__ != name] == []
    assert [name for name in module.__all__ if not inspect.getdoc(getattr(module, name))] == []
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'trajectories'"):
        module.trajectories  # noqa: B018


def test_raygrove_has_the_names_of_both_packages() -> None:
    assert not set(actors.__all__) & set(runtime.__all__)
    assert {*actors.__all__, *runtime.__all__} <= set(dir(raygrove))
    assert set(runtime.__all__) <= set(dir(runtime))
    assert raygrove.LlmAgent is actors.LlmAgent
    assert raygrove.Runtime is runtime.Runtime
    with pytest.raises(AttributeError, match="module 'raygrove' has no attribute 'Runtim'"):
        raygrove.Runtim  # noqa: B018


def test_the_modules_of_raygrove_have_the_names_of_those_behind_them() -> None:
    assert vars(raygrove.errors)["__all__"] == vars(actors.errors)["__all__"]
    assert list(raygrove.web.__all__) == list(runtime.web.__all__)
    assert set(raygrove.testing.__all__) == {*actors.testing.__all__, *runtime.testing.__all__}
    for module in (raygrove.errors, raygrove.models, raygrove.testing, raygrove.web):
        assert [name for name in module.__all__ if not inspect.getdoc(getattr(module, name))] == []
