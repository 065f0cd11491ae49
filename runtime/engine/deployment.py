"""What is to be made live: an app's tree with its stores. The same for every engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from actors.definitions.flows import FlowAgent
from actors.definitions.tree import AgentTree
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from runtime.models.gemini import Gemini
from runtime.models.registry import missing, resolve
from runtime.settings import Settings


@dataclass(frozen=True)
class Deployment:
    """An app, checked and ready to start.

    Attributes:
        session_store, artifact_store, memory_store: URLs with absolute paths, or the stores themselves; without memory, None.
        auto_create_session: what turns do that do not say it themselves.
        detached: it is there until somebody stops it, whatever becomes of its driver.
    """

    app_name: str
    tree: AgentTree
    session_store: str | SessionStore
    artifact_store: str | ArtifactStore
    memory_store: str | MemoryStore | None
    settings: Settings
    auto_create_session: bool = True
    detached: bool = False

    def plans(self) -> dict[str, Any]:
        """The definitions of the flows that are part of the tree, by the names of their agents."""
        return {agent.name: cast(FlowAgent, agent).flow.plan for agent in self.tree.flow_agents()}


def check_models(tree: AgentTree) -> None:
    """See that every LLM agent's model is known. Raises UnknownModelError, DefinitionError."""
    for agent, model in _different_models(tree):
        resolve(agent, model)


def model_names(tree: AgentTree) -> dict[str, str]:
    """The models of all agents that name one instead of holding it."""
    return {agent: model for agent, model in tree.models.items() if isinstance(model, str)}


def modules(tree: AgentTree) -> tuple[str, ...]:
    """What the models in the tree load with their first call, and takes long: Google's SDK, if one is a Gemini model."""
    return ("google.genai",) if any(isinstance(resolve("", model), Gemini) for _, model in _different_models(tree)) else ()


def _different_models(tree: AgentTree) -> Iterable[tuple[str, Any]]:
    """Every model once, with the first agent that has it: most agents of a large tree share one."""
    found: dict[object, tuple[str, Any]] = {}
    for agent, model in tree.models.items():
        found.setdefault(model if isinstance(model, str) else id(model), (agent, model))
    return found.values()


def obstacles(models: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What keeps agents from running in this process: per agent its model's name and what that is missing."""
    reasons = {model: missing(model) for model in set(models.values())}
    return {agent: (model, reason) for agent, model in models.items() if (reason := reasons[model]) is not None}
