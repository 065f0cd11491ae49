"""One seed: its crowd, and what does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from actors.rules.recovery.suspects import MAX_ATTEMPTS, MAX_LOSSES, MAX_TOGETHER
from tests.simulation.poison.crowd import Crowd, crowd
from tests.simulation.poison.play import Left, play


def check(seed: int) -> list[str]:
    """What does not hold for the crowd of a seed."""
    given = crowd(seed)
    return list(problems(given, play(given, seed)))


def problems(given: Crowd, left: Left) -> Iterator[str]:
    """One user's failure is no other's, and it ends."""
    yield from left.problems
    yield from (f"call {each} ran again, though its result was stored" for each in left.again)
    poisoned = sum(asked.is_poisoned for asked in given.turns)
    for number, asked in enumerate(given.turns):
        ended = left.ended.get(number, "")
        if not asked.is_poisoned:
            if ended != "Finished":
                yield f"turn {number}, which only does {asked.does}, has ended as {ended}"
            continue
        # An agent that is a tool fails by itself: its model's caller hears of that and goes on.
        right = "Finished" if asked.does == "crash in expert" else "AgentLostError"
        if ended != right:
            yield f"turn {number} has ended as {ended}, and it ends its process each time"
        # It may be lost with others each time that one of these is, or something else, or the agent that has asked for it.
        alone = MAX_ATTEMPTS if "runner" in asked.takes or poisoned > 1 or given.lost else MAX_LOSSES
        together = MAX_TOGETHER * (2 if asked.does == "crash in expert" else 1) + len(given.lost) + (poisoned - 1) * MAX_ATTEMPTS
        most = (alone + together) * asked.often
        if left.runs[number] > most:
            yield f"turn {number} has run {left.runs[number]} times, at most {most} were right"
