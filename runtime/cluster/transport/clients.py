"""What programs and processes need to reach a deployment's core actors on Ray, and the clients of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Link
from actors.layers.placing.client import runner_client, stores_client
from actors.refs import Ref, RunnerRef, SessionRef
from actors.rules.sharding import all_shards
from runtime.cluster.transport.pair import Pair
from runtime.cluster.transport.ray_actors import Handle
from runtime.cluster.transport.wires import WireOptions, Wires
from runtime.observability.logs.sinks import LogOptions
from runtime.settings import Settings


@dataclass(frozen=True)
class DeploymentInfo:
    """What a driver needs to join a deployment.

    Attributes:
        settings: the settings with which the deployment was started.
        artifact_store: URL or store of artifacts.
        auto_create_session: what turns do that do not say it themselves.
        deployment: tells it from other deployments of its name.
        stores: how many stores it has.
    """

    settings: Settings
    artifact_store: str | ArtifactStore
    auto_create_session: bool
    logs: LogOptions
    wires: WireOptions
    deployment: str = ""
    stores: int = 1


@dataclass(frozen=True)
class CoreHandles:
    """Handles of the actors that are started with a deployment.

    Attributes:
        sessions: the Session actors, those of the first store first, as many of each store, by shard.
        runners: the Runners, by shard; in an agent's process only the Runner that started it.
        limiter: the actor that limits models; None where no model is limited.
        wires: how their processes are reached.
        pairs: the Session actors with their standbys, where they have any.
        standbys: of Session actors and Runners, as far as they are there; for programs only.
        stores: how many stores there are.
    """

    sessions: Sequence[Handle]
    runners: Sequence[Handle]
    limiter: Handle | None
    wires: WireOptions
    pairs: Sequence[Pair] = ()
    standbys: Sequence[Handle] = ()
    stores: int = 1

    def awaited(self) -> list[Handle]:
        """Those that a process which connects waits for: of Session actors that have standbys one of two may be away."""
        return [
            *(() if self.pairs else self.sessions),
            *self.runners,
            *([self.limiter] if self.limiter is not None else []),
        ]

    def hosts(self) -> list[Handle]:
        """The processes of Session actors and Runners, those of standbys included."""
        return [*self.sessions, *self.runners, *self.standbys]


def session_ref(wires: Wires, core: CoreHandles, restart_timeout_s: float, max_bytes: int | None = None) -> SessionRef:
    """A client of the Session actors.

    Args:
        restart_timeout_s: see ActorLink.
        max_bytes: see Ref.
    """
    links = _links(wires, "Session actor", core.sessions, core.pairs, restart_timeout_s)
    return stores_client([SessionRef(link, max_bytes) for link in links], core.stores)


def runner_ref(
    wires: Wires, handles: Sequence[Handle], restart_timeout_s: float, max_bytes: int | None = None, pairs: Sequence[Pair] = ()
) -> RunnerRef:
    """A client of the Runners.

    Args:
        handles: of all of them, by shard.
        rest: as of `session_ref`.
        pairs: of all of them, where Runners have standbys.
    """
    links = _links(wires, "Runner", handles, pairs, restart_timeout_s)
    return runner_client([RunnerRef(link, max_bytes) for link in links])


def limiter_ref(wires: Wires, handle: Handle, restart_timeout_s: float) -> Ref:
    """A client of the actor that limits models."""
    return Ref(wires.link(handle, "the actor that limits models", restart_timeout_s))


def _links(wires: Wires, kind: str, handles: Sequence[Handle], pairs: Sequence[Pair], restart_timeout_s: float) -> list[Link]:
    """Links to the actors of a kind; to pairs of processes, where they have standbys."""
    names = [f"the {kind}" if shard.of == 1 else f"{kind} {shard.index}" for shard in all_shards(len(handles))]
    if pairs:
        return [wires.pair_link(pair, name, restart_timeout_s) for pair, name in zip(pairs, names, strict=True)]
    return [wires.link(handle, name, restart_timeout_s) for handle, name in zip(handles, names, strict=True)]
