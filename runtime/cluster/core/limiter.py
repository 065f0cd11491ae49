"""The actor that limits models, in its own process, which loads nothing that it does not need.

The limits that operators have changed are kept by Ray's control service: so they outlive the actor that goes by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from ray.exceptions import RayError

from actors.actor import Actor
from actors.errors import ClusterError
from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.limits import ModelLimits
from runtime.cluster.core.actors import limiter_name
from runtime.cluster.host import RayActorHost
from runtime.cluster.packing.pickling import from_chunks
from runtime.cluster.packing.versions import KeptVersions
from runtime.cluster.ray import key_values
from runtime.cluster.ray_metrics import RayMetrics
from runtime.observability.figures import of_models
from runtime.settings import Settings


@dataclass(frozen=True)
class KeptModelLimits:
    """Implements `KeptLimits`.

    Attributes:
        of: names the deployment, and forgets the limits together with its versions.
    """

    of: KeptVersions

    def read(self) -> Mapping[str, ModelLimits]:
        """The changed limits by names and patterns."""
        raw = key_values.value_of(self.of.key("limits", "models"))
        kept: Mapping[str, Mapping[str, Any]] = msgspec.json.decode(raw) if raw is not None else {}
        return {name: ModelLimits(**fields) for name, fields in kept.items()}

    def keep(self, changed: Mapping[str, ModelLimits]) -> None:
        """Keep these in place of those before. Raises ClusterError."""
        raw = msgspec.json.encode({name: limits.model_dump() for name, limits in changed.items()})
        try:
            key_values.put(self.of.key("limits", "models"), raw)
        except (RayError, RuntimeError) as error:
            raise ClusterError(
                f"Ray does not keep the limits of app {self.of.app_name!r}: {type(error).__name__}: {error}"
            ) from error


def build_limiter(app_name: str, settings: Settings, changes: KeptModelLimits) -> Actor:
    """Build the actor that limits models, with the limits that operators have changed."""
    limiter = LimiterActor(settings.model_limits, limiter_name(app_name), user_weights=settings.user_weights, changes=changes)
    RayMetrics(settings, app_name, limiter.name).start(lambda: of_models(limiter.figures().models))
    return limiter


class LimiterHost(RayActorHost):
    """The process of the actor that limits models.

    Args:
        chunks: of what builds the actor, and of its WireOptions.
    """

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(*from_chunks(chunks))
