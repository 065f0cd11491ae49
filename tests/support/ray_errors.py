"""Errors as Ray raises them."""

from __future__ import annotations

from ray.core.generated.common_pb2 import ActorDiedErrorContext, NodeDeathInfo  # type: ignore[attr-defined]
from ray.exceptions import ActorDiedError


def preempted() -> ActorDiedError:
    """What Ray raises of an actor whose node was drained with notice of preemption, while it starts that actor on another one."""
    context = ActorDiedErrorContext(actor_id=bytes(16))
    context.node_death_info.reason = NodeDeathInfo.AUTOSCALER_DRAIN_PREEMPTED
    return ActorDiedError(context)
