"""The output of an LLM agent: its final response, kept in the session's state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.behaviours.lifecycle import KeepOutput
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.tools.context import Actions
from actors.definitions.tree.spec import AgentSpec
from actors.errors import OutputSchemaError
from actors.messages.event import Event
from actors.messages.json_types import JsonValue
from actors.messages.shown import shown


def output_keeper(spec: AgentSpec) -> KeepOutput | None:
    """Return the function that keeps an agent's output; None for an agent whose output is kept nowhere and has no schema."""
    agent = spec.llm_agent
    return partial(_keep, agent) if agent.output_key or agent.output_type is not None else None


def _keep(agent: LlmAgent, event: Event, actions: Actions) -> None:
    """Note what an event says under `output_key`, as text, or as data that fits `output_schema`. Raises OutputSchemaError."""
    text = event.text
    parts = event.content.parts if event.content is not None else ()
    is_said = bool(text) or any(part.text is not None and not part.thought for part in parts)
    if not is_said or any(event.function_calls()):
        return
    value: JsonValue = text
    if agent.output_type is not None:
        try:
            value = agent.output_type.value_of(text)
        except ValueError as error:
            if agent.keeps_unfit():
                return
            raise OutputSchemaError(agent.name, f"{error}. It answered {shown(text)}") from error
    if agent.output_key:
        actions.state_delta[agent.output_key] = value


class InterimWords:
    """Notes what an agent that is a node says beside its calls under `output_key`; its final response takes the place of that.

    Source: google-adk from 2.13 on, for text that comes before a call.

    Args:
        done: what the run had stored before it was lost or paused.
    """

    def __init__(self, spec: AgentSpec, done: Sequence[Event]) -> None:
        agent = spec.llm_agent
        self._key = agent.output_key if agent.output_type is None else None
        self._said = "".join(event.text for event in done if event.author == spec.name) if self._key else ""

    def note(self, event: Event, actions: Actions) -> None:
        """Take in a response that is not the final one."""
        if self._key and event.text and not event.partial:
            self._said += event.text
            actions.state_delta[self._key] = self._said
