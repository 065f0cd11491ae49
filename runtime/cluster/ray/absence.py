"""What Ray says of an actor that has not answered: it is away, since Ray starts it again, or it is gone.

The classes of Ray's errors do not tell them apart: while it starts an actor of a preempted node on another one, it raises the
error of an actor that died.
"""

from __future__ import annotations

from ray.exceptions import ActorUnavailableError, RayActorError

AbsentActorError = RayActorError
"""What Ray raises of an actor that has not answered, whether it is away or gone."""


def is_away(error: AbsentActorError) -> bool:
    """Whether Ray may be about to start the actor again.

    One that was preempted may have no restarts left, which Ray does not say: wait for it with a limit.
    """
    return isinstance(error, ActorUnavailableError) or error.preempted
