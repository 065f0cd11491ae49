"""Users' callbacks, of an agent, and of plugins for all agents of a deployment and for its turns.

They are called by keyword when their parameters have ADK's names, else by position; sync ones in threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.errors.user_code import UserFunction, UserResult, in_thread
from actors.messages.content import Content
from actors.messages.costs import BudgetWarning
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest, LlmResponse

CALLBACK_PARAMETERS: Mapping[str, Sequence[tuple[str, ...]]] = {
    "before_agent_callback": [("callback_context",)],
    "after_agent_callback": [("callback_context",)],
    "before_model_callback": [("callback_context",), ("llm_request",)],
    "after_model_callback": [("callback_context",), ("llm_response",)],
    "on_model_error_callback": [("callback_context",), ("llm_request",), ("error",)],
    "before_tool_callback": [("tool",), ("args", "tool_args"), ("tool_context",)],
    "after_tool_callback": [("tool",), ("args", "tool_args"), ("tool_context",), ("tool_response", "result")],
    "on_tool_error_callback": [("tool",), ("args", "tool_args"), ("tool_context",), ("error",)],
    "on_user_message_callback": [("invocation_context", "callback_context"), ("user_message",)],
    "before_run_callback": [("invocation_context", "callback_context")],
    "after_run_callback": [("invocation_context", "callback_context")],
    "on_run_error_callback": [("invocation_context", "callback_context"), ("error",)],
    "on_agent_error_callback": [("callback_context",), ("error",)],
    "on_event_callback": [("invocation_context", "callback_context"), ("event",)],
    "on_budget_callback": [("callback_context", "invocation_context"), ("warning",)],
    "instruction": [("readonly_context", "context")],
    "global_instruction": [("readonly_context", "context")],
}
"""What each callback is given, in the order of a call by position: ADK's name, then the name that ADK's plugins have for it."""

_LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Signature:
    """How to call the callback of a point such as `before_tool_callback`.

    Args:
        function: the callback.
        point: a key of `CALLBACK_PARAMETERS`.

    Attributes:
        names: the names to call it by, in the order of `CALLBACK_PARAMETERS`; empty for a call by position.
        is_async: the function is async, so it runs on the event loop and not in a thread.

    Raises:
        DefinitionError: it can be called in neither form, or would get other values than its parameters' names say.
    """

    def __init__(self, function: UserFunction, point: str) -> None:
        given = CALLBACK_PARAMETERS[point]
        # An object may have an async __call__.
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self.names: tuple[str, ...] = ()
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            # A function written in C need not say what it takes.
            return
        parameters = signature.parameters
        names = tuple(next((name for name in known if name in parameters), known[0]) for known in given)
        if _is_by_name(signature, names):
            self.names = names
        elif not _takes(signature, len(given), {}):
            raise DefinitionError(_refusal(function, point, signature, names))
        else:
            _check_order(function, point, signature, given)


_SIGNATURES: WeakKeyDictionary[UserFunction, dict[str, Signature]] = WeakKeyDictionary()
"""How to call each function, as long as it is there. Thousands of agents may share one, and an inspection takes 20 us."""


def signature_of(function: UserFunction, point: str) -> Signature:
    """The signature by which a callback is called: see Signature. Raises DefinitionError."""
    try:
        known = _SIGNATURES.setdefault(function, {})
    except TypeError:
        # An object that cannot be hashed, or has no weak references.
        return Signature(function, point)
    if point not in known:
        known[point] = Signature(function, point)
    return known[point]


class UserCallback:
    """A user's callback, to be called at one point. A sync one runs in a thread, so that it may block.

    Args:
        function: the user's.
        point: where it is called, such as `before_agent_callback`.

    Attributes:
        function: the same.

    Raises:
        DefinitionError: the function cannot be called there.
    """

    def __init__(self, function: UserFunction, point: str) -> None:
        self.function = function
        self._signature = signature_of(function, point)

    async def __call__(self, *args: object) -> UserResult:
        """Call the function with what the point gives, in its order. Raises whatever the function raises."""
        names = self._signature.names
        named = dict(zip(names, args, strict=True)) if names else {}
        unnamed = () if names else args
        if self._signature.is_async:
            return await self.function(*unnamed, **named)
        result = await in_thread(self.function, *unnamed, **named)
        return await result if inspect.isawaitable(result) else result


def _takes(signature: inspect.Signature, positional: int, named: Mapping[str, None]) -> bool:
    try:
        signature.bind(*[None] * positional, **named)
    except TypeError:
        return False
    return True


def _is_by_name(signature: inspect.Signature, names: Sequence[str]) -> bool:
    """True when all its parameters have ADK's names, those aside that have a default; a decorator's `*args` say nothing."""
    parameters = signature.parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind not in _LOOSE]
    is_loose = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    says_so = any(name in names for name in named) or (not named and not is_loose)
    return says_so and _takes(signature, 0, dict.fromkeys(names))


def _check_order(function: UserFunction, point: str, signature: inspect.Signature, given: Sequence[tuple[str, ...]]) -> None:
    """Check that a call by position gives no parameter with one of ADK's names the value of another. Raises DefinitionError."""
    for index, parameter in enumerate(list(signature.parameters.values())[: len(given)]):
        other = next((known[0] for known in given if parameter.name in known), "")
        if parameter.kind not in _LOOSE and other and parameter.name not in given[index]:
            what = f"its parameter {parameter.name!r} would be given {given[index][0]!r}"
            raise DefinitionError(f"{point} {_named(function)}{signature} is called by position, and {what}. {_forms(given)}")


def _refusal(function: UserFunction, point: str, signature: inspect.Signature, names: Sequence[str]) -> str:
    what = "1 argument" if len(names) == 1 else f"{len(names)} arguments"
    return f"{point} {_named(function)}{signature} cannot be called with {what}. {_forms(CALLBACK_PARAMETERS[point])}"


def _forms(given: Sequence[tuple[str, ...]]) -> str:
    names = ", ".join(known[0] for known in given)
    if len(given) == 1:
        return f"Give it one parameter: {names}, or a name of your own"
    return f"Give it the parameters {names}, by these names in any order; or as many with names of your own, in this order"


def _named(function: UserFunction) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


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
