"""Runtimes for the cases of vectors.yaml, each with its model.

On the local engine every case has its own. On Ray, where each costs several processes, neighbouring cases with the same tree
share one, each with a user and a session of its own; their model holds the scripts of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from actors import BaseAgent
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime
from tests.support.runtimes import Deploy
from tests.support.vectors.vector_agents import FailingArtifactStore
from tests.support.vectors.vector_notation import Case, TreeBuilder, VectorError, scripted

SESSION_ID = "s"


class RuntimeFactory:
    """Creates Runtimes, each with new stores.

    Attributes:
        is_expensive: each costs several processes.
    """

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self.is_expensive = engine == "ray"
        self._folder = folder
        self._count = 0

    def __call__(self, root: BaseAgent | None, **options: Any) -> Runtime:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return Deploy(self.engine, folder)(root, **options)


class CaseRuntime(msgspec.Struct):
    """A live Runtime, and the range of its model's replies that belongs to a case.

    Attributes:
        first: how many requests came before.
        replies: how many replies are the case's.
    """

    runtime: Runtime
    model: ScriptedModel
    first: int
    replies: int

    def is_ready(self) -> bool:
        """True when the cases before have made exactly their model calls."""
        return len(self.model.requests) == self.first == len(self.model.replies) - self.model.remaining


def sharing_key(case: Case) -> str:
    """Equal for cases that may share a Runtime, "" for one that needs its own."""
    whole = json.dumps(case.given)
    if "leftover" in case.given or "artifact_store" in case.given or "app:" in whole:
        return ""
    return json.dumps(case.given["tree"])


class CaseRuntimes:
    """One live Runtime at a time.

    Args:
        cases: all cases in their order; those that share a tree should be neighbours.
    """

    def __init__(self, make: RuntimeFactory, cases: Sequence[Case]) -> None:
        self._make = make
        self._cases = cases
        self._life = ExitStack()
        self._plan: dict[str, CaseRuntime] = {}
        self._tree = ""
        self._of_tree: Runtime | None = None

    def of_case(self, case: Case) -> CaseRuntime:
        """The Runtime for a case with a script."""
        stage = self._plan.get(case.id)
        if stage is not None and stage.is_ready():
            return stage
        self.close()
        plan = self._following(case)
        model = ScriptedModel([reply for each in plan for reply in scripted(each.given.get("script") or []).replies])
        root = TreeBuilder(model).build(case.given["tree"])
        runtime = self._life.enter_context(self._make(root, app_name="vectors", **_stores(case)))
        first = 0
        for each in plan:
            replies = len(each.given.get("script") or [])
            self._plan[each.id] = CaseRuntime(runtime, model, first, replies)
            first += replies
        return self._plan[case.id]

    def _following(self, case: Case) -> list[Case]:
        """The case, and later ones that can share its Runtime."""
        shared = sharing_key(case)
        if not self._make.is_expensive or not shared:
            return [case]
        behind = list(self._cases)[list(self._cases).index(case) :]
        return [each for each in behind if sharing_key(each) == shared]

    def of_tree(self, tree: Mapping[str, Any]) -> Runtime:
        """A live Runtime of a tree whose model has an answer to everything."""
        key = json.dumps(tree)
        if self._of_tree is None or key != self._tree:
            self.close()
            root = TreeBuilder(PatternModel([], default="ok")).build(tree)
            self._of_tree = self._life.enter_context(self._make(root, app_name="vectors"))
            self._tree = key
        return self._of_tree

    def close(self) -> None:
        self._plan.clear()
        self._of_tree = None
        self._life.close()


def _stores(case: Case) -> dict[str, Any]:
    match case.given.get("artifact_store"):
        case None:
            return {}
        case "failing":
            return {"artifact_store": FailingArtifactStore()}
        case other:
            raise VectorError(f"artifact_store: {other!r}")
