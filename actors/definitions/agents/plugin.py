"""Callbacks for all agents of a deployment at once, and for its turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors import DefinitionError
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.model import LlmRequest, LlmResponse


class Plugin:
    """Subclass it, override the hooks that are wanted, and give an instance to `Runtime(plugins=(…))`.

    A plugin's hooks run before the agents' own callbacks, those of several plugins in their order; the first result that is not
    None is taken, and what stands behind it is not called. Hooks are sync or async. State that a hook writes rides on
    the event that the hook belongs to.

    The hooks of turns run in the Runner, all others in the process of the agent that they are about. Each has a copy of its own,
    made by pickling: what is to be shared belongs into `context.state`.

    Attributes:
        name: unique in a deployment; by default the name of the class.
    """

    name: str = ""

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__

    # ------------------------------------------------------------------------------------------------- of a turn
    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Any:
        """Called before the user's message is stored. Content returned replaces it; its function responses have to stay."""

    def before_run_callback(self, context: CallbackContext) -> Any:
        """Called when a turn begins. Content returned is the turn: it is said by the agent that was selected, which does not run.

        A turn that goes on after a pause was begun before: the hook is not called again.
        """

    def after_run_callback(self, context: CallbackContext) -> Any:
        """Called when a turn has come to its end: not at a pause, and not when it failed or was cancelled."""

    # ------------------------------------------------------------------------------------------------- of an event
    def on_event_callback(self, context: CallbackContext, event: Event) -> Any:
        """Called for every event of an agent, pieces of streamed answers too, before it is stored or delivered.

        An Event returned replaces it; ids, author, time and branch stay. Events that a supervisor leaves for itself and the
        event of a failure are not shown.
        """

    # ------------------------------------------------------------------------------------------------- of an agent
    def before_agent_callback(self, context: CallbackContext) -> Any:
        """Like the agents' callback of that name: content returned is the run."""

    def after_agent_callback(self, context: CallbackContext) -> Any:
        """Like the agents' callback of that name: content returned is one more event."""

    def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> Any:
        """Like the agents' callback of that name: a response returned replaces the model call."""

    def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> Any:
        """Like the agents' callback of that name: a response returned replaces the model's."""

    def on_model_error_callback(self, context: CallbackContext, request: LlmRequest, error: Exception) -> Any:
        """Like the agents' callback of that name: a response returned replaces the error."""

    def before_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> Any:
        """Like the agents' callback of that name: a result returned replaces the tool call."""

    def after_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, result: Any) -> Any:
        """Like the agents' callback of that name: a result returned replaces the tool's."""

    def on_tool_error_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, error: Exception) -> Any:
        """Like the agents' callback of that name: a result returned replaces the error."""


def hooks(plugins: Sequence[Plugin], name: str) -> Sequence[Callable[..., Any]]:
    """The hooks of that name, of the plugins that have one."""
    return [getattr(plugin, name) for plugin in plugins if getattr(type(plugin), name) is not getattr(Plugin, name)]


def checked(plugins: Sequence[Plugin]) -> tuple[Plugin, ...]:
    """The plugins, if they can be used together. Raises DefinitionError."""
    names: set[str] = set()
    for plugin in plugins:
        if not isinstance(plugin, Plugin):
            raise DefinitionError(f"a plugin must be an instance of a subclass of Plugin, not {plugin!r}")
        name = plugin.name or type(plugin).__name__
        if name in names:
            raise DefinitionError(f"two plugins are called {name!r}: give one of them another name")
        names.add(name)
    return tuple(plugins)
