"""Users' callbacks: called by keyword when their parameters have ADK's names, else by position; sync ones in threads."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from actors.errors import DefinitionError
from actors.errors.user_code import UserFunction, UserResult, in_thread

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
