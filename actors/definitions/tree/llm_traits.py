"""What all runs of an LLM agent ask of its definition, found once.

A definition is a pydantic model: reading a field of one takes ten times as long as reading an attribute of another object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.definitions.agents.callback import UserCallback
from actors.definitions.agents.finish_task import RULES
from actors.definitions.agents.llm import Instruction, LlmAgent
from actors.interfaces.model import Model
from actors.messages.topology import TASK
from actors.rules.prompt import instructions


class LlmTraits:
    """Fields of an LLM agent's definition, and what follows from them and from its place in the tree.

    Args:
        agent: the definition.
        model: the model's name or object, its own or inherited.
        hooks: gives the callbacks of a point, the plugins' included.
        global_instruction: see AgentSpec.
        menu: the part of the system instruction that explains transfer.
        is_asked_once: it answers its input once, so that its name says nothing to it.

    Attributes:
        is_task: its mode is "task".
        include_contents, static_instruction, planner, code_executor, output_type, output_key: see LlmAgent.
        config: its `generate_content_config`.
        model: the name that its requests have; "" for a model object without one.
        after_agent: its hooks.
        keeps_output: its answers are kept in the state, or have a form.
        identity: the part of the system instruction that names it.
        instruction: the whole system instruction; None where it has to be filled in for each request.
    """

    __slots__ = (
        "after_agent",
        "code_executor",
        "config",
        "identity",
        "include_contents",
        "instruction",
        "is_task",
        "keeps_output",
        "model",
        "output_key",
        "output_type",
        "planner",
        "static_instruction",
    )

    def __init__(
        self,
        agent: LlmAgent,
        model: str | Model,
        hooks: Callable[[str], Sequence[UserCallback]],
        global_instruction: Instruction,
        menu: str,
        *,
        is_asked_once: bool,
    ) -> None:
        self.is_task = agent.mode == TASK
        self.include_contents = agent.include_contents
        self.static_instruction: str = agent.static_instruction
        self.planner = agent.planner
        self.code_executor = agent.code_executor
        self.output_type = agent.output_type
        self.output_key = agent.output_key
        self.config = agent.generate_content_config
        self.model: str = model if isinstance(model, str) else getattr(model, "model", "")
        self.keeps_output = bool(self.output_key) or self.output_type is not None
        self.after_agent = hooks("after_agent_callback")
        self.identity = "" if is_asked_once else instructions.identity(agent.name, agent.description)
        self.instruction = _whole_instruction(agent, global_instruction, self.identity, menu)


def _whole_instruction(agent: LlmAgent, global_instruction: Instruction, identity: str, menu: str) -> str | None:
    """The system instruction of an agent; None where a part of it is a template, or a function."""
    own = "" if agent.static_instruction else agent.instruction
    if any(not isinstance(given, str) or "{" in given for given in (global_instruction, own)):
        return None
    rules = RULES if agent.mode == TASK else ""
    return instructions.join([str(global_instruction), agent.static_instruction, str(own), identity, menu, rules])
