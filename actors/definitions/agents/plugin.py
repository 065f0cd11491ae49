"""Callbacks for all agents of a deployment at once, and for its turns."""

from __future__ import annotations

from collections.abc import Sequence

from actors.definitions.agents.callback import UserCallback
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.errors.user_code import UserResult
from actors.messages.content import Content
from actors.messages.costs import BudgetWarning
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.llm.model import LlmRequest, LlmResponse


class Plugin:
    """Hooks for all agents of a deployment: subclass it, override the hooks you want, and pass `Runtime(plugins=[…])`.

    A hook may be sync or async; a sync one runs in a thread. Its parameters may have ADK's names instead of those below: then it
    is called by keyword. Hooks run before the agents' own callbacks, and those of several plugins in the plugins'
    order. The first result that is not None counts; the remaining hooks and callbacks of that point are not called. State that
    a hook writes is stored with the event that the hook belongs to. A hook of a turn that raises fails the turn; any other
    fails the run of its agent.

    The hooks of turns run in the Runner's process, all others in the process of the agent that they are about. Each process
    has its own pickled copy of the plugin: keep what has to be shared in `context.state`.

    Args:
        name: unique in a deployment; by default the name of the class.

    Attributes:
        name: the same.
    """

    name: str = ""

    @explains_wrong_calls
    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__

    # Hooks of a turn.

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> UserResult:
        """Called before the user's message is stored.

        Returns:
            None, or a Content or text that replaces the message. It must keep the message's function responses.
        """

    def before_run_callback(self, context: CallbackContext) -> UserResult:
        """Called when a turn begins, but not when it goes on after a pause.

        Returns:
            None, or a Content or text that is the whole turn: the selected agent says it and does not run.
        """

    def after_run_callback(self, context: CallbackContext) -> UserResult:
        """Called when a turn has finished: not at a pause, and not when it failed or was cancelled. Its result is ignored."""

    def on_run_error_callback(self, context: CallbackContext, error: Exception) -> UserResult:
        """Called when a turn has failed, with the error that its program gets: not when it was cancelled, or took too long.

        A turn whose process is lost meanwhile may have it called again. Neither its result nor what it writes into the state
        counts; what it raises is logged, and the turn's own error stays.
        """

    # The hook of an event.

    def on_event_callback(self, context: CallbackContext, event: Event) -> UserResult:
        """Called for every event of an agent, partial ones too, before it is stored or delivered.

        Events in which a supervisor notes its progress, and the event of a failure, are not passed.

        Returns:
            None, or an Event that replaces it; ids, author, timestamp and branch stay.
        """

    # The hook of a budget.

    def on_budget_callback(self, context: CallbackContext, warning: BudgetWarning) -> UserResult:
        """Called when 80 % of a budget are used, once for each budget and day, before the call that has found that.

        It is called in the process of an agent that uses the budget. Its result is ignored.
        """

    # Hooks of an agent; the agents' callbacks of the same names follow them. A response is an LlmResponse, a Content or a text.

    def before_agent_callback(self, context: CallbackContext) -> UserResult:
        """Called before an agent's run. Returns None, or a Content or text that is the agent's answer and skips the run."""

    def after_agent_callback(self, context: CallbackContext) -> UserResult:
        """Called after an agent's run. Returns None, or a Content or text that becomes one more event."""

    def on_agent_error_callback(self, context: CallbackContext, error: Exception) -> UserResult:
        """Called when the run of an agent has failed, with what its code has raised, in the process of the agent.

        The event of the failure is in the log then. Neither its result nor what it writes into the state counts; what it raises
        is logged.
        """

    def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> UserResult:
        """Called before a model call; may change the request. Returns None, or a response that replaces the call."""

    def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> UserResult:
        """Called after a model call. Returns None, or a response that replaces the model's."""

    def on_model_error_callback(self, context: CallbackContext, request: LlmRequest, error: Exception) -> UserResult:
        """Called when a model raised. Returns None to let the run fail, or a response in its place."""

    def before_tool_callback(self, tool: Tool, args: JsonObject, context: ToolContext) -> UserResult:
        """Called before a tool call; may change `args`. Returns None, or a result that replaces the call."""

    def after_tool_callback(self, tool: Tool, args: JsonObject, context: ToolContext, result: UserResult) -> UserResult:
        """Called after a tool call. Returns None, or a result that replaces the tool's."""

    def on_tool_error_callback(self, tool: Tool, args: JsonObject, context: ToolContext, error: Exception) -> UserResult:
        """Called when a tool raised. Returns None to report the error to the model, or a result that replaces it."""


HOOKS = tuple(name for name in vars(Plugin) if name.endswith("_callback"))
"""The names of all hooks."""


def hooks(plugins: Sequence[Plugin], name: str) -> Sequence[UserCallback]:
    """The hooks of that name, of the plugins that override it. Raises DefinitionError when one cannot be called."""
    overriding = [plugin for plugin in plugins if getattr(type(plugin), name) is not getattr(Plugin, name)]
    return [UserCallback(getattr(plugin, name), name) for plugin in overriding]


def checked(plugins: Sequence[Plugin]) -> tuple[Plugin, ...]:
    """The plugins of a deployment.

    Raises:
        DefinitionError: one is no Plugin, two have the same name, or a hook cannot be called.
    """
    names: set[str] = set()
    for plugin in plugins:
        if not isinstance(plugin, Plugin):
            raise DefinitionError(f"a plugin must be an instance of a subclass of Plugin, not {plugin!r}")
        name = plugin.name or type(plugin).__name__
        if name in names:
            raise DefinitionError(f"two plugins are called {name!r}: give one of them another name")
        names.add(name)
    for hook in HOOKS:
        hooks(plugins, hook)
    return tuple(plugins)
