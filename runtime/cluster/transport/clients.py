"""Clients of a deployment's core actors, on Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.interfaces.transport import Link
from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.refs.sharded import runner_client, session_client
from actors.rules.capacity.sharding import all_shards
from runtime.cluster.handle import Handle
from runtime.cluster.transport.wires import WireOptions, Wires


@dataclass(frozen=True)
class CoreHandles:
    """Handles of the actors that are started with a deployment.

    Attributes:
        sessions: the Session actors, by shard.
        runners: the Runners, by shard; in an agent's process only the Runner that started it.
        limiter: the actor that limits models; None where no model is limited.
        wires: how their processes are reached.
    """

    sessions: Sequence[Handle]
    runners: Sequence[Handle]
    limiter: Handle | None
    wires: WireOptions

    def all(self) -> list[Handle]:
        """All of them."""
        return [*self.sessions, *self.runners, *([self.limiter] if self.limiter is not None else [])]


def session_ref(wires: Wires, handles: Sequence[Handle], restart_timeout_s: float, max_bytes: int | None = None) -> SessionRef:
    """A client of the Session actors.

    Args:
        wires: of this process.
        handles: of all of them, by shard.
        restart_timeout_s: see RayLink.
        max_bytes: see Ref.
    """
    return session_client([SessionRef(link, max_bytes) for link in _links(wires, handles, "Session actor", restart_timeout_s)])


def runner_ref(wires: Wires, handles: Sequence[Handle], restart_timeout_s: float, max_bytes: int | None = None) -> RunnerRef:
    """A client of the Runners, with the arguments of `session_ref`."""
    return runner_client([RunnerRef(link, max_bytes) for link in _links(wires, handles, "Runner", restart_timeout_s)])


def limiter_ref(wires: Wires, handle: Handle, restart_timeout_s: float) -> LimiterRef:
    """A client of the actor that limits models."""
    return LimiterRef(wires.link(handle, "the actor that limits models", restart_timeout_s))


def _links(wires: Wires, handles: Sequence[Handle], kind: str, restart_timeout_s: float) -> list[Link]:
    names = [f"the {kind}" if shard.of == 1 else f"{kind} {shard.index}" for shard in all_shards(len(handles))]
    return [wires.link(handle, name, restart_timeout_s) for handle, name in zip(handles, names, strict=True)]
