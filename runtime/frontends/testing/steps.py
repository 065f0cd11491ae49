"""The steps of a turn: who said, called, transferred or failed what. A test writes those that it expects in the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


class Anything:
    """The type of ANYTHING."""

    def __repr__(self) -> str:
        return "…"


ANYTHING: Any = Anything()
"""Stands for what an expected step leaves open."""


@dataclass(frozen=True)
class Step:
    """What an agent did. Fields of an expected step that are left out fit anything.

    A regular expression (`re.compile`) fits a text in which it is found, anywhere in arguments and results too; any other value
    fits what it is equal to.

    Attributes:
        agent: the name of the agent; `user` for the user.
    """

    agent: str | re.Pattern[str] = ANYTHING

    def fits(self, actual: Step) -> bool:
        """True when a step that happened is what this one expects."""
        return type(self) is type(actual) and not self.differences(actual)

    def differences(self, actual: Step) -> list[str]:
        """The fields in which a step of the same kind differs from this one, such as `args['order_id']`."""
        found: list[str] = []
        for each in fields(self):
            found += _differences(each.name, getattr(self, each.name), getattr(actual, each.name))
        return found

    def shown(self) -> str:
        """The step without its agent: `says 'Hello'`."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{_shown_name(self.agent)} {self.shown()}"


@dataclass(frozen=True)
class Said(Step):
    """An agent said something.

    Attributes:
        text: what it said, without thoughts.
    """

    text: str | re.Pattern[str] = ANYTHING

    def shown(self) -> str:
        """The text that it said."""
        return f"says {_shown(self.text)}"


@dataclass(frozen=True)
class Called(Step):
    """An agent called a tool.

    Attributes:
        tool: its name.
        args: all arguments of the call.
        result: what the tool returned, as a dictionary; None while there is no answer.
    """

    tool: str | re.Pattern[str] = ANYTHING
    args: Mapping[str, Any] = ANYTHING
    result: Mapping[str, Any] | None = ANYTHING

    def shown(self) -> str:
        """The call and its result."""
        is_open = isinstance(self.args, Anything)
        args = "…" if is_open else ", ".join(f"{name}={_shown(value)}" for name, value in self.args.items())
        result = (
            "" if isinstance(self.result, Anything) else " -> no answer" if self.result is None else f" -> {_shown(self.result)}"
        )
        return f"calls {_shown_name(self.tool)}({args}){result}"


@dataclass(frozen=True)
class Transferred(Step):
    """An agent handed the conversation over.

    Attributes:
        to: the agent that took it.
    """

    to: str | re.Pattern[str] = ANYTHING

    def shown(self) -> str:
        """Where it went."""
        return f"transfers to {_shown_name(self.to)}"


@dataclass(frozen=True)
class Failed(Step):
    """The run of an agent failed.

    Attributes:
        error: the class name of the error.
        message: its text.
    """

    error: str | re.Pattern[str] = ANYTHING
    message: str | re.Pattern[str] = ANYTHING

    def shown(self) -> str:
        """The error."""
        message = "" if isinstance(self.message, Anything) else f": {_text(self.message)}"
        return f"fails with {_shown_name(self.error)}{message}"


def _differences(where: str, expected: object, actual: object) -> list[str]:
    if isinstance(expected, Anything):
        return []
    if isinstance(expected, re.Pattern):
        return [] if isinstance(actual, str) and expected.search(actual) else [where]
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        found = [f"{where}[{name!r}]" for name in [*expected, *actual] if (name in expected) != (name in actual)]
        for name in expected:
            if name in actual:
                found += _differences(f"{where}[{name!r}]", expected[name], actual[name])
        return found
    if _is_list(expected) and _is_list(actual) and len(expected) == len(actual):  # type: ignore[arg-type]
        pairs = enumerate(zip(expected, actual, strict=True))  # type: ignore[call-overload]
        return [each for place, (one, other) in pairs for each in _differences(f"{where}[{place}]", one, other)]
    return [] if expected == actual else [where]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown_name(value: object) -> str:
    return value if isinstance(value, str) else _shown(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else _shown(value)


def _shown(value: object) -> str:
    return f"/{value.pattern}/" if isinstance(value, re.Pattern) else repr(value)
