"""A deployment that is ready to start, the same for every engine: an app's tree with its models, its flows and its stores."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from actors.errors import FlowNotFoundError
from actors.interfaces.model import Model, name_of
from actors.interfaces.stores import ArtifactStore
from actors.layers.flows.definitions import FlowAgent, FlowPlan
from actors.layers.trees.tree import AgentTree
from actors.rules.eviction import LruDict
from runtime.engine.interface import LoopClock
from runtime.engine.store_urls import SessionAndMemory
from runtime.models.registry import Check, check_of, resolve, sdks
from runtime.settings import Settings


@dataclass(frozen=True)
class Deployment:
    """An app, checked and ready to start.

    Attributes:
        stores: all session stores in their order, each with the memory of its users; URLs with absolute paths, or the stores
            themselves, as is `artifact_store`.
        auto_create_session: whether turns create a missing session, unless a turn says otherwise.
        detached: the deployment goes on after its driver has ended, until it is shut down.
        clock: the clock of a test; None: that of the machine.
    """

    app_name: str
    tree: AgentTree
    stores: Sequence[SessionAndMemory]
    artifact_store: str | ArtifactStore
    settings: Settings
    auto_create_session: bool = True
    detached: bool = False
    clock: LoopClock | None = None


def plans_of(tree: AgentTree) -> dict[str, FlowPlan]:
    """The plans of the flows in a tree, by the names of their agents."""
    return {agent.name: agent.flow.plan for agent in tree if isinstance(agent, FlowAgent)}


def check_models(tree: AgentTree) -> None:
    """Check that every LLM agent's model is known. Raises UnknownModelError, DefinitionError."""
    for agent, model in distinct_models(tree):
        resolve(agent, model)
    if tree.summary_model:
        resolve(tree.root.name, tree.summary_model)


DistinctModels = Collection[tuple[str, str | Model]]
"""Models, each once, and the first agent that has it."""


class ModelCheck(NamedTuple):
    """What tells, in the process in which agents would run, whether their model can be used.

    Attributes:
        lacks: says what is missing there; None if nothing.
    """

    model: str
    lacks: Check


def model_checks(tree: AgentTree, distinct: DistinctModels) -> dict[str, ModelCheck]:
    """The checks of models, by agent; those of agents with the same model are one object. Not all models have one.

    Args:
        distinct: the tree's.
    """
    found = {
        _identity(model): ModelCheck(name_of(model), lacks) for _, model in distinct if (lacks := check_of(model)) is not None
    }
    if not found:
        return {}
    return {agent: check for agent, model in tree.models.items() if (check := found.get(_identity(model))) is not None}


def slow_imports(tree: AgentTree, distinct: DistinctModels) -> tuple[str, ...]:
    """Modules to preload because they are slow to import: the SDK that most agents have whose models load one.

    Any agent may live in any process, so each further SDK would cost memory in all of them.
    """
    by_model = {_identity(model): loads for _, model in distinct if (loads := sdks(model))}
    if not by_model:
        return ()
    used = Counter(modules for model in tree.models.values() if (modules := by_model.get(_identity(model))))
    return used.most_common(1)[0][0]


def _identity(model: str | Model) -> object:
    return model if isinstance(model, str) else id(model)


def distinct_models(tree: AgentTree) -> DistinctModels:
    """Every model of a tree once, with the first agent that has it: most agents of a large tree share one."""
    found: dict[object, tuple[str, str | Model]] = {}
    for each in tree.models.items():
        if (key := _identity(each[1])) not in found:
            found[key] = each
    return found.values()


def obstacles(checks: Mapping[str, ModelCheck]) -> dict[str, tuple[str, str]]:
    """The agents that cannot run in this process: for each its model's name and what that model lacks.

    Args:
        checks: of their models, by agent.
    """
    distinct = {id(check): check for check in checks.values()}
    reasons = {number: check.lacks() for number, check in distinct.items()}
    return {agent: (check.model, reason) for agent, check in checks.items() if (reason := reasons[id(check)]) is not None}


MAX_ADDED = 1_000
"""Definitions kept of those sent with turns; the least recently used is dropped first."""

PlanT = TypeVar("PlanT")
"""A FlowPlan, its pickled form, or what a driver keeps of it."""


class FlowRegistry(Generic[PlanT]):
    """Flow definitions by name. Any thread may use it.

    Args:
        permanent: the definitions of the tree, which are never dropped.
    """

    def __init__(self, permanent: Mapping[str, PlanT]) -> None:
        self._permanent = dict(permanent)
        self._added: LruDict[str, PlanT] = LruDict(MAX_ADDED)
        self._lock = threading.Lock()

    def add(self, name: str, plan: PlanT) -> None:
        """Add a definition, or replace the one of that name."""
        with self._lock:
            self._added[name] = plan

    async def find(self, name: str) -> PlanT:
        """A definition. Raises FlowNotFoundError."""
        plan = self.get(name)
        if plan is None:
            raise FlowNotFoundError(name)
        return plan

    def get(self, name: str) -> PlanT | None:
        """A definition, or None."""
        with self._lock:
            plan = self._added.get(name)
        return plan if plan is not None else self._permanent.get(name)

    def added(self) -> list[str]:
        """The names of the definitions that were sent with turns, the least recently used first."""
        with self._lock:
            return list(self._added)
