"""Mutants and what notices them.

`python -m tests.mutants check FILE …` says whether the code still has the text that each mutant changes.

`python -m tests.mutants run FILE … -- COMMAND [-- COMMAND …]` runs each command with each mutant, in a copy of the checkout, and
prints a table of which commands failed. Give pytest `-x`, and `-o timeout=20`, since mutants make tests wait in vain:

    python -m tests.mutants run mutants.json -- pytest -x -n 2 -o timeout=20 tests/unit -- python -m tests.simulation 0 300

`{tests}` in a command stands for the tests that reach what a mutant changes, as `tests.mutants.reach` has found out before:

    pytest -n 2 -p tests.mutants.reach tests/unit tests/acceptance
    python -m tests.mutants run mutants.json -- pytest -x -n 2 -o timeout=20 {tests}
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.mutants.mutant import Mutant, StaleMutantError, read_mutants
from tests.mutants.reach import Reach
from tests.mutants.running import Outcome, changed, copied_checkout, run

LIMIT_S = 600.0

TESTS = "{tests}"


def main() -> None:
    head, *commands = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["check", "run"])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants; by default all")
    parser.add_argument("--first", action="store_true", help="run no more commands with a mutant that one has noticed")
    parser.add_argument(
        "--limit",
        type=float,
        metavar="S",
        help=f"a command that takes longer has noticed; default: {LIMIT_S:.0f}, or thrice its time",
    )
    given = parser.parse_args(head)
    mutants = {name: mutant for file in given.files for name, mutant in read_mutants(file).items()}
    mutants = {name: mutants[name] for name in given.only or mutants}
    if stale := [*_problems(mutants.values())]:
        raise SystemExit("\n".join(stale))
    if given.do == "run":
        found = _play([*mutants.values()], commands, given.limit, is_first=given.first)
        print("\n".join(_table([*mutants.values()], commands, found)))


def _split(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _problems(mutants: Iterable[Mutant]) -> Iterator[str]:
    for mutant in mutants:
        try:
            mutant.texts()
        except (StaleMutantError, SyntaxError) as error:
            yield f"{mutant.name}: {error}"


def _play(
    mutants: Sequence[Mutant], commands: Sequence[Sequence[str]], limit_s: float | None, *, is_first: bool
) -> Mapping[str, Sequence[Outcome]]:
    """By mutant, what became of each command. Raises SystemExit when one fails without any mutant."""
    found: dict[str, list[Outcome]] = {}
    with copied_checkout() as place:
        limits_s = [limit_s or max(LIMIT_S, 3 * _time_of(command, place)) for command in commands]
        for number, mutant in enumerate(mutants, 1):
            outcomes = found[mutant.name] = []
            with changed(mutant, place):
                for command, most_s in zip(commands, limits_s, strict=True):
                    if is_first and any(outcome.is_noticed for outcome in outcomes):
                        break
                    outcomes.append(_tried(mutant, command, place, most_s))
            _say(f"{number} of {len(mutants)} {mutant.name}: {'; '.join(map(str, outcomes))}")
    return found


def _time_of(command: Sequence[str], place: Path) -> float:
    """How long a command takes without a mutant."""
    if TESTS in command:
        # Its tests have passed when what they reach was found out.
        return 0.0
    outcome = run(command, place, 24 * 3600.0)
    _say(f"without a mutant: {shlex.join(command)}: {outcome}")
    if outcome.is_noticed:
        raise SystemExit("a command that fails without a mutant says nothing of one")
    return outcome.took_s


def _tried(mutant: Mutant, command: Sequence[str], place: Path, limit_s: float) -> Outcome:
    if TESTS in command:
        tests = _reach().tests(mutant)
        if not tests:
            return Outcome(False, "no test reaches it", 0.0)
        named = place.with_name("tests.txt")
        named.write_text("\n".join(tests))
        command = [f"@{named}" if word == TESTS else word for word in command]
    return run(command, place, limit_s)


@cache
def _reach() -> Reach:
    return Reach()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _table(mutants: Sequence[Mutant], commands: Sequence[Sequence[str]], found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """A row for each mutant, and how many each command has noticed."""
    yield _row(["mutant", "what it does", *(f"`{shlex.join(command)}`" for command in commands)])
    yield _row(["---"] * (2 + len(commands)))
    for mutant in mutants:
        yield _row([mutant.name, mutant.what, *map(str, found[mutant.name])])
    counts = [
        sum(outcomes[place].is_noticed for outcomes in found.values() if place < len(outcomes)) for place in range(len(commands))
    ]
    every = sum(any(outcome.is_noticed for outcome in outcomes) for outcomes in found.values())
    yield _row([f"noticed: {every} of {len(mutants)}", "", *map(str, counts)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    main()
