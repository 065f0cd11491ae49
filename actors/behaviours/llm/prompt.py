"""What an LLM agent's model is shown: the conversation, and the system instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.behaviours.lifecycle import facts_for_user_code
from actors.definitions.agents.callback import UserCallback
from actors.definitions.agents.finish_task import RULES
from actors.definitions.tools.context import ReadonlyContext
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import Context
from actors.messages.content import Content
from actors.messages.topology import TASK
from actors.rules.prompt import instructions
from actors.rules.prompt.transient import place_before, transient_place


class Prompt(Protocol):
    """What differs between the model calls of an agent in a conversation and in a flow.

    Attributes:
        has_output_schema: the response has to fit the agent's `output_schema`, if it has one.
        fixed_instruction: the system instruction, where it is the same for every call; else None.
    """

    has_output_schema: bool
    fixed_instruction: str | None

    async def contents(self) -> list[Content]:
        """Return the conversation, oldest first."""
        ...

    async def system_instruction(self) -> str:
        """Return the system instruction. Raises TemplateError, and what the user's functions raise."""
        ...


class AgentPrompt:
    """Implements `Prompt` for an agent in a conversation."""

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._spec = spec
        # The output of a task is the arguments of a call.
        self.has_output_schema = spec.mode != TASK
        self.fixed_instruction = spec.fixed_instruction
        self._context = context
        self._templates = Templates(spec, context)

    async def contents(self) -> list[Content]:
        """Return as much of the conversation as the agent includes."""
        view = await self._context.view()
        contents = view.contents(self._spec.llm_agent.include_contents)
        if given := self._context.run_config.model_input_context:
            place = place_before(contents, view.message_of(self._context.invocation_id))
            contents = [*contents[:place], *given, *contents[place:]]
        return await self._templates.placed_in(contents) if self._spec.llm_agent.static_instruction else contents

    async def system_instruction(self) -> str:
        """Return the instructions of the tree and of the agent, its identity, its transfer targets, and how its task ends."""
        rules = RULES if self._spec.mode == TASK else ""
        return instructions.join([*await self._templates.of_agent(), self._spec.transfer_menu.instruction, rules])


class Templates:
    """Fills in the instructions that users write, with the state and the artifacts of one run."""

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._spec = spec
        self._context = context

    async def of_agent(self) -> list[str]:
        """Return the tree's instruction, the agent's static one, its own, and its identity, "" where there is none."""
        agent = self._spec.llm_agent
        return [
            await self.filled_in(self._spec.global_instruction) if self._spec.global_instruction else "",
            agent.static_instruction,
            await self.filled_in(agent.instruction) if agent.instruction and not agent.static_instruction else "",
            self._spec.identity,
        ]

    async def placed_in(self, contents: list[Content]) -> list[Content]:
        """Return the conversation, with the instruction of an agent that has a static one before the newest message."""
        agent = self._spec.llm_agent
        instruction = await self.filled_in(agent.instruction) if agent.static_instruction else ""
        if not instruction:
            return contents
        place = transient_place(contents)
        return [*contents[:place], Content.of_text(instructions.of_this_turn(instruction)), *contents[place:]]

    async def filled_in(self, given: str | Callable[..., Any]) -> str:
        """Return the text of an instruction: a template, or a function of a ReadonlyContext, whose result is no template."""
        if not given:
            return ""
        if callable(given):
            return str(await UserCallback(given, "instruction")(ReadonlyContext(**facts_for_user_code(self._context))))
        names = instructions.artifact_names(given)
        artifacts = {name: await self._artifact_text(name) for name in names} if names else {}
        return instructions.render(given, self._context.state, artifacts, self._spec.name)

    async def _artifact_text(self, filename: str) -> str | None:
        part = await self._context.artifacts.load(filename)
        if part is None:
            return None
        if part.inline_data is not None:
            return part.inline_data.data.decode(errors="replace")
        return part.text or ""
