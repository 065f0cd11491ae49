"""Clients of a deployment's Session actors and Runners, on Ray."""

from __future__ import annotations

from collections.abc import Sequence

from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.refs.sharded import runner_client, session_client
from actors.rules.capacity.sharding import all_shards
from runtime.cluster.transport.link import Handle, RayLink


def session_ref(handles: Sequence[Handle], patience_s: float, max_bytes: int | None = None) -> SessionRef:
    """A client of the Session actors.

    Args:
        handles: of all of them, in order.
        patience_s: how long one may be away that Ray starts again.
        max_bytes: see Ref.
    """
    return session_client([SessionRef(link, max_bytes) for link in _links(handles, "Session actor", patience_s)])


def runner_ref(handles: Sequence[Handle], patience_s: float, max_bytes: int | None = None) -> RunnerRef:
    """A client of the Runners: see `session_ref`."""
    return runner_client([RunnerRef(link, max_bytes) for link in _links(handles, "Runner", patience_s)])


def limiter_ref(handle: Handle, patience_s: float) -> LimiterRef:
    """A client of the actor that limits models."""
    return LimiterRef(RayLink(handle, "the actor that limits models", patience_s))


def _links(handles: Sequence[Handle], kind: str, patience_s: float) -> list[RayLink]:
    names = [f"the {kind}" if share.of == 1 else f"{kind} {share.index}" for share in all_shards(len(handles))]
    return [RayLink(handle, name, patience_s) for handle, name in zip(handles, names, strict=True)]
