"""Which objects can be plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors import LlmAgent, Plugin
from actors.definitions.agents.callbacks import UserCallback, hooks
from actors.errors import DefinitionError
from actors.layers.trees.tree import AgentTree
from actors.testing import ScriptedModel


class Quiet(Plugin):
    def __init__(self) -> None:
        """Leaves out what the base class does."""


class Loud(Plugin):
    def before_agent_callback(self, context: Any) -> None:
        """Do nothing."""


def functions(found: Sequence[UserCallback]) -> list[Any]:
    return [callback.function for callback in found]


def test_only_hooks_that_are_overridden_are_called() -> None:
    loud = Loud()
    assert functions(hooks([Quiet(), loud, Plugin()], "before_agent_callback")) == [loud.before_agent_callback]
    assert hooks([loud], "before_model_callback") == []


def test_an_agent_calls_the_hooks_before_its_own_callbacks() -> None:
    loud = Loud()
    root = LlmAgent(name="root", model=ScriptedModel([]), before_agent_callback=[print, repr])
    spec = AgentTree(root, [loud]).spec("root")
    assert functions(spec.hooks("before_agent_callback")) == [loud.before_agent_callback, print, repr]


@pytest.mark.parametrize(
    ("plugins", "told"),
    [
        ([Loud(), Loud()], "two plugins are called 'Loud'"),
        ([Quiet(), Plugin("Quiet")], "two plugins are called 'Quiet'"),
        ([Loud], "instance of a subclass of Plugin"),
    ],
)
def test_plugins_that_cannot_be_used_together_are_refused(plugins: list[Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        AgentTree(LlmAgent(name="root", model=ScriptedModel([])), plugins)
