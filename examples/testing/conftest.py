"""What all tests of this project share: the tree, with a model that says what each test wants it to say."""

import pytest
from help_desk import desk

from raygrove import LlmAgent
from raygrove.testing import ScriptedModel


@pytest.fixture(scope="module")
def root_agent(scripted_model: ScriptedModel) -> LlmAgent:
    return desk(scripted_model)
