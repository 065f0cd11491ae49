"""Builds the actor that limits models, in its own process, which loads nothing that it does not need."""

from __future__ import annotations

from actors.actor import Actor
from actors.limiter.actor import LimiterActor
from runtime.cluster.deployment.names import limiter_name
from runtime.cluster.ray_metrics import RayMetrics
from runtime.observability.metrics.figures import of_models
from runtime.settings import Settings


def build_limiter(app_name: str, settings: Settings) -> Actor:
    """Build the actor that limits models."""
    limiter = LimiterActor(settings.model_limits, limiter_name(app_name), user_weights=settings.user_weights)
    RayMetrics(settings, app_name, limiter.name).start(lambda: of_models(limiter.figures().models))
    return limiter
