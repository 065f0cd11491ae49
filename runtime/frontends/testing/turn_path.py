"""The path of a turn through a tree: its steps in order, and comparisons that say where a path is another one than expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from actors.errors import DefinitionError
from actors.messages.event import Event
from actors.messages.session import Session
from actors.rules.routing.transfer import TRANSFER_TOOL
from runtime.driver.turns.turn import Turn, TurnResult
from runtime.frontends.testing.steps import Called, Failed, Said, Step, Transferred

Pairs = set[tuple[int, int]]
"""Which expected step is which of those that happened, by their places."""


class Trajectory(Sequence[Step]):
    """The steps of a turn in order, and what became of its state. `print` it for a list.

    Args:
        state: the keys that were written, with their last values.
    """

    def __init__(self, steps: Iterable[Step], state: Mapping[str, Any]) -> None:
        self._steps = list(steps)
        self.state = dict(state)

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...

    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return compared("", [], self._steps, set()).strip("\n") or "(no steps)"

    @property
    def agents(self) -> list[str]:
        """The agents that did something, in order; one that did several things in a row stands once."""
        names = [str(step.agent) for step in self._steps]
        return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were called, in order."""
        return [str(step.tool) for step in self._steps if isinstance(step, Called)]

    def assert_exactly(self, *expected: Step, state: Mapping[str, Any] | None = None) -> None:
        """Check that these steps happened in this order, and no others.

        Args:
            state: the keys that were written, with their values, and no others; None: any.

        Raises:
            AssertionError: the path is another one. Its text shows both, line by line.
            DefinitionError: an expected step is none.
        """
        __tracebackhide__ = True
        pairs = in_order(_checked(expected), self._steps)
        if len(pairs) != len(expected) or len(pairs) != len(self._steps):
            raise AssertionError(compared("the path is another one than expected", expected, self._steps, pairs, exact=True))
        self._assert_state(state, set(self.state) - set(state) if state is not None else ())

    def assert_in_order(self, *expected: Step, state: Mapping[str, Any] | None = None) -> None:
        """Check that these steps happened in this order; others may stand between them.

        Args:
            state: keys that were written, with their values; others may be written too.

        Raises:
            AssertionError, DefinitionError: see `assert_exactly`.
        """
        __tracebackhide__ = True
        pairs = in_order(_checked(expected), self._steps)
        if len(pairs) != len(expected):
            raise AssertionError(compared("steps are missing, or in another order", expected, self._steps, pairs))
        self._assert_state(state)

    def assert_contains(self, *expected: Step, state: Mapping[str, Any] | None = None) -> None:
        """Check that these steps happened, in whatever order; a step that is given twice happened at least twice.

        Args:
            state: keys that were written, with their values; others may be written too.

        Raises:
            AssertionError, DefinitionError: see `assert_exactly`.
        """
        __tracebackhide__ = True
        pairs = contains(_checked(expected), self._steps)
        if len(pairs) != len(expected):
            raise AssertionError(compared("steps are missing", expected, self._steps, pairs))
        self._assert_state(state)

    def _assert_state(self, expected: Mapping[str, Any] | None, surplus: Iterable[str] = ()) -> None:
        __tracebackhide__ = True
        expected = expected or {}
        wrong = [name for name, value in expected.items() if name not in self.state or self.state[name] != value]
        lines = [f"- {name} = {expected[name]!r}" for name in wrong]
        wrong += sorted(surplus)
        lines += [f"+ {name} = {self.state[name]!r}" for name in wrong if name in self.state]
        if lines:
            text = "\n".join(sorted(lines, key=lambda line: (line[2:].partition(" = ")[0], line[0] == "+")))
            raise AssertionError(f"the state is another one than expected (-: expected, +: written):\n{text}")


def trajectory(source: Turn | TurnResult | Session | Iterable[Event]) -> Trajectory:
    """The path of a turn. On an event loop: `trajectory(await turn)`.

    Args:
        source: a turn, whose end is waited for; how a turn ended; a session, with what the user said; or events.

    Raises:
        TurnError: the turn failed, was cancelled or took too long. What it did until then is in its session.
    """
    complete = [event for event in _events(source) if not event.partial]
    state: dict[str, Any] = {}
    for event in complete:
        state.update(event.actions.state_delta)
    return Trajectory(_steps(complete), state)


def _events(source: Turn | TurnResult | Session | Iterable[Event]) -> Iterable[Event]:
    if isinstance(source, Turn):
        return source.result().events
    return source.events if isinstance(source, TurnResult | Session) else source


def _steps(events: Sequence[Event]) -> Iterator[Step]:
    answers = {(event.author, response.id): (event, response) for event in events for response in event.function_responses()}
    for event in events:
        if event.error_code and event.content is None:
            yield Failed(event.author, event.error_code, event.error_message or "")
        if event.text:
            yield Said(event.author, event.text)
        for call in event.function_calls():
            answered, response = answers.get((event.author, call.id), (None, None))
            target = answered.actions.transfer_to_agent if answered is not None else None
            if call.name == TRANSFER_TOOL and target is not None:
                yield Transferred(event.author, target)
            else:
                yield Called(event.author, call.name, call.args, response.response if response is not None else None)
        if event.actions.transfer_to_agent and not any(event.function_responses()):
            yield Transferred(event.author, event.actions.transfer_to_agent)


def _checked(expected: Sequence[Step]) -> Sequence[Step]:
    for step in expected:
        if not isinstance(step, Step):
            raise DefinitionError(f"{step!r} is no step: write Said, Called, Transferred or Failed, each as its own argument")
    return expected


def in_order(expected: Sequence[Step], actual: Sequence[Step]) -> Pairs:
    """The longest common sequence: as many expected steps as fit in their order."""
    longest = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(actual))):
            longest[i][j] = max(longest[i + 1][j], longest[i][j + 1])
            if expected[i].fits(actual[j]):
                longest[i][j] = max(longest[i][j], longest[i + 1][j + 1] + 1)
    pairs: Pairs = set()
    i = j = 0
    while i < len(expected) and j < len(actual):
        if expected[i].fits(actual[j]) and longest[i][j] == longest[i + 1][j + 1] + 1:
            pairs.add((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] > longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def contains(expected: Sequence[Step], actual: Sequence[Step]) -> Pairs:
    """As many expected steps as have one of their own among those that happened, in whatever order."""
    taken: dict[int, int] = {}

    def take(i: int, tried: set[int]) -> bool:
        """Find a step for an expected one; another expected step may have to take another one for that."""
        for j, step in enumerate(actual):
            if j not in tried and expected[i].fits(step):
                tried.add(j)
                if j not in taken or take(taken[j], tried):
                    taken[j] = i
                    return True
        return False

    for i in range(len(expected)):
        take(i, set())
    return {(i, j) for j, i in taken.items()}


def compared(title: str, expected: Sequence[Step], actual: Sequence[Step], pairs: Pairs, *, exact: bool = False) -> str:
    """Both lists as one: what was expected and did not happen is marked with `-`.

    Args:
        exact: mark with `+` what happened and was not expected, and leave what happened as expected without a mark.
    """
    expected_of = {j: i for i, j in pairs}
    found = set(expected_of.values())
    width = max((len(str(step.agent)) for step in (*expected, *actual)), default=0)
    lines: list[str] = []
    missing = [i for i in range(len(expected)) if i not in found]
    for j, step in enumerate(actual):
        if j in expected_of:
            while missing and missing[0] < expected_of[j]:
                lines.append(_line("-", expected[missing.pop(0)], width))
            lines.append(_line(" " if exact else "*", step, width))
        else:
            like = next((i for i in missing if type(expected[i]) is type(step)), None) if exact else None
            if like is not None and all(i >= like for i in missing):
                missing.remove(like)
                lines.append(_line("-", expected[like], width))
                lines.append(_line("+", step, width))
                lines.append(f"  {'':{width}}   ^ {', '.join(expected[like].differences(step))}")
            else:
                lines.append(_line("+" if exact else " ", step, width))
    lines += [_line("-", expected[i], width) for i in missing]
    if not title:
        return "\n".join(line[2:] for line in lines)
    marks = "-: expected, +: happened" if exact else "-: missing, *: found"
    return "\n".join([f"{title} ({marks}):", *(lines or ["  (nothing happened)"])])


def _line(mark: str, step: Step, width: int) -> str:
    return f"{mark} {_agent(step):{width}} {step.shown()}"


def _agent(step: Step) -> str:
    return step.agent if isinstance(step.agent, str) else str(step).removesuffix(step.shown()).strip()
