"""Draining a node of a cluster, as autoscalers and `ray drain-node` do."""

from __future__ import annotations

import time
from typing import Literal

Reason = Literal["PREEMPTION", "IDLE_TERMINATION"]


def drain(address: str, node_id: str, reason: Reason, within_s: float) -> None:
    """Announce that a node ends. Ray starts nothing there from now on; to end it is left to the caller.

    Args:
        address: of the cluster's control service.
        within_s: when it ends.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

    deadline_ms = int((time.time() + within_s) * 1_000)
    number = DrainNodeReason.Value(f"DRAIN_NODE_REASON_{reason}")
    is_accepted, refusal = GcsClient(address=address).drain_node(node_id, number, "a test", deadline_ms)
    assert is_accepted, refusal
