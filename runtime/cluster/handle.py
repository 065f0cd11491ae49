"""The handle that a process has of an actor of Ray's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.actor import ActorHandle

if TYPE_CHECKING:
    # Ray's own type says that no call of a method ever returns, so code behind one would not be checked.
    Handle = Any
else:
    Handle = ActorHandle[Any]
    """Ray's handle of an actor; it can be sent to other processes."""
