"""What a process has of an actor of Ray's."""

from __future__ import annotations

from typing import Any

from ray.actor import ActorHandle

Handle = ActorHandle[Any]
"""Ray's handle of an actor; it can be sent to other processes."""
