"""All public names of `actors` and `runtime` in one place: `from raygrove import LlmAgent, Runtime, tool`.

The names are loaded when they are first used. pytest imports this package in every project that has raygrove installed, which may
have modules `actors` and `runtime` of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from raygrove.shadowing import PACKAGES, refuse_hidden_packages

if TYPE_CHECKING:
    from actors import *  # noqa: F403
    from runtime import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name == "__all__":
        # What `from raygrove import *` asks for.
        return _public_names()
    if name.startswith("__"):
        raise AttributeError(name)
    refuse_hidden_packages()
    for package in PACKAGES:
        module = import_module(package)
        if name in module.__all__:
            return getattr(module, name)
    # Not above: pytest imports this package in every project.
    from raygrove.other_names import refuse_other_name

    refuse_other_name("raygrove", name)
    raise AttributeError(f"module 'raygrove' has no attribute {name!r}")


def _public_names() -> list[str]:
    return [name for package in PACKAGES for name in import_module(package).__all__]


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})
