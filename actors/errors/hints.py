"""Hints in the messages of errors: the valid name nearest to a wrong one, short lists, and how a wrong call should be written.

Python itself suggests keywords from 3.13 on. The decorators cost a call nothing that is right: its arguments are looked at when
Python has refused them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from pydantic import ValidationError


F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


MAX_COMPARED = 256
"""Names that are compared letter by letter; comparing ten thousand would take 0.15 s."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """A hint for an error message: " Did you mean 'x'?" with the valid name nearest to `name`, or "" when none is near."""
    nearest = get_close_matches(name, _candidates(name, list(valid)), n=1)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def _candidates(name: str, valid: list[str]) -> list[str]:
    """The names that share most pairs of letters with `name`; all names if they are few."""
    if len(valid) <= MAX_COMPARED:
        return valid
    # A model may make up a name of any length.
    pairs = {first + second for first, second in pairwise(name[:MAX_COMPARED])} or {name}
    return nlargest(MAX_COMPARED, valid, key=lambda each: sum(map(each.__contains__, pairs)) / (len(each) + len(pairs)))


def some_of(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many others there are: `a, b and 3 more`.

    Args:
        most: how many are named.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def unexpected(call: str, name: str, valid: Iterable[str]) -> str:
    """The sentence that refuses a keyword."""
    names = list(valid)
    return f"{call}() got an unexpected keyword argument {name!r}.{did_you_mean(name, names) or _listed(names)}"


def no_such_field(name: str, valid: Iterable[str]) -> str:
    """The reason why a field of a definition is refused."""
    names = list(valid)
    return f"there is no such field.{did_you_mean(name, names) or _listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return f" It takes: {', '.join(names) or 'none'}"


def explains_wrong_calls(function: F) -> F:
    """Have a method or a constructor say what is right when its arguments are wrong.

    The method that it returns raises TypeError for wrong arguments, as the function does.
    """

    def explained(error: TypeError, unnamed: Sequence[object], named: Mapping[str, object]) -> TypeError:
        sentence = _sentence(function, unnamed, named)
        return TypeError(sentence) if sentence else error

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*unnamed: Any, **named: Any) -> Any:
            try:
                running = function(*unnamed, **named)
            except TypeError as error:
                raise explained(error, unnamed, named) from None
            return await running

        return cast(F, call_async)

    @functools.wraps(function)
    def call(*unnamed: Any, **named: Any) -> Any:
        try:
            return function(*unnamed, **named)
        except TypeError as error:
            if (other := explained(error, unnamed, named)) is error:
                raise
            raise other from None

    return cast(F, call)


def explains_all_wrong_calls(cls: C) -> C:
    """Have the constructor and all public methods of a class say what is right when their arguments are wrong."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(explains_wrong_calls(member.__func__)))
        elif inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, explains_wrong_calls(member))
    return cls


def _sentence(function: Callable[..., object], unnamed: Sequence[object], named: Mapping[str, object]) -> str:
    """Tell what is wrong with the arguments, and what would be right; "" when they are right, or when Python says it as well."""
    signature = inspect.signature(function)
    try:
        signature.bind(*unnamed, **named)
    except TypeError:
        own, *rest = signature.parameters.values()
        title = _title(function, unnamed)
        takes_any = any(each.kind is each.VAR_POSITIONAL for each in rest)
        by_name = [each.name for each in rest if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        by_place = [own, *(each for each in rest if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD))]
        if wrong := [name for name in named if name not in by_name]:
            return unexpected(title, wrong[0], by_name)
        if len(unnamed) > len(by_place) and not takes_any:
            return f"{title}() {_by_name(title, by_place[1:], rest)}"
        given = {each.name for each in by_place[: len(unnamed)]} | set(named)
        if missing := [each.name for each in _required(rest) if each.name not in given]:
            return f"{title}() lacks {' and '.join(missing)}: write {_written(title, by_place[1:], rest)}"
    return ""


def _by_name(title: str, by_place: Sequence[inspect.Parameter], rest: Sequence[inspect.Parameter]) -> str:
    """Tell which arguments are given by name, with a call as it should be."""
    what = (
        f"takes all arguments but {', '.join(each.name for each in by_place)} by name"
        if by_place
        else ("takes its arguments by name" if rest else "takes no arguments")
    )
    return f"{what}: write {_written(title, by_place, rest)}"


def _written(title: str, by_place: Sequence[inspect.Parameter], rest: Sequence[inspect.Parameter]) -> str:
    """A call with what is required, or with all that it takes where nothing is."""
    written = [each.name if each in by_place else f"{each.name}=…" for each in _required(rest)]
    return f"{title}({', '.join(written or [f'{each.name}=…' for each in rest])})"


def _required(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in parameters if each.default is each.empty and each.kind not in several]


def _title(function: Callable[..., object], unnamed: Sequence[object]) -> str:
    """The call as users write it: methods of a Runtime may stand in a class above it."""
    owner = unnamed[0] if unnamed else None
    cls = (owner if isinstance(owner, type) else type(owner)).__name__
    return cls if function.__name__ == "__init__" else f"{cls}.{function.__name__}"


_MetaOfStructs = type(msgspec.Struct)


class _CheckedMeta(_MetaOfStructs):  # type: ignore[misc, valid-type]
    """Calls of the class itself: decoding and `structs.replace` do not come here."""

    if not TYPE_CHECKING:
        # Type checkers know the fields from the struct.
        def __call__(cls, *unnamed, **named):
            try:
                return _MetaOfStructs.__call__(cls, *unnamed, **named)
            except TypeError:
                fields = cls.__struct_fields__
                for name in named:
                    if name not in fields:
                        raise TypeError(unexpected(cls.__name__, name, fields)) from None
                raise


if TYPE_CHECKING:
    CheckedStruct = msgspec.Struct
else:

    class CheckedStruct(msgspec.Struct, metaclass=_CheckedMeta):
        """The base of structs that programs make with fields by name.

        Values that actors make by the thousand, such as events, have msgspec's own base: this one costs more than their making.
        """


def problems(error: ValidationError, *, whole: str = "", fields: Iterable[str] = ()) -> str:
    """Every error as `field: message`, separated by semicolons.

    Args:
        whole: stands in place of the field where an error is about the value as a whole; "" leaves it out.
        fields: the names that fields can have, from which the nearest is suggested; without them none is.
    """
    valid = list(fields)
    found = []
    for detail in error.errors():
        message = detail["msg"].removeprefix("Value error, ")
        if valid and detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
            message = no_such_field(str(detail["loc"][0]), valid)
        found.append((".".join(map(str, detail["loc"])) or whole, message))
    return "; ".join(f"{field}: {message}" if field else message for field, message in found)
