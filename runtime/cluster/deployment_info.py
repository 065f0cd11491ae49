"""What a deployment tells the programs that join it."""

from __future__ import annotations

from dataclasses import dataclass

from actors.interfaces.stores import ArtifactStore
from runtime.cluster.transport.wires import WireOptions
from runtime.observability.logs.options import LogOptions
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
