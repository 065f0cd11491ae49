"""Compares expected steps with those that happened, and shows where they differ."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.frontends.testing.steps import Step

Pairs = set[tuple[int, int]]
"""Which expected step is which of those that happened, by their places."""


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
