"""The form in which errors travel between actors."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors.base import RaygroveError
from actors.errors.tracebacks import with_traceback


def _all_classes(cls: type[RaygroveError]) -> dict[str, type[RaygroveError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found |= _all_classes(child)
    return found


def name_and_args(error: RaygroveError) -> tuple[str, list[object]]:
    """The form in which an error is sent to another actor: the name of its class, and its arguments."""
    return type(error).__name__, list(error.args)


def rebuild(name: str, args: Sequence[object], traceback: str = "") -> RaygroveError:
    """The error that was sent as `name` and `args`; a plain RaygroveError when no class has that name.

    Args:
        traceback: becomes its `remote_traceback`, and a note.
    """
    return with_traceback(_all_classes(RaygroveError).get(name, RaygroveError)(*args), traceback)
