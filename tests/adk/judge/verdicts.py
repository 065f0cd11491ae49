"""What is said of a test that passes with ADK's Runner and not with a Runtime, against what is expected."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

EXPECTED = Path(__file__).with_name("expected.toml")


class Kind(StrEnum):
    """What became of a test."""

    PASSED = "passed"
    INTERNALS = "asserts ADK's internals"
    DECIDED = "decided differently"
    REFUSED = "refused by name"
    GAP = "a gap that is known"
    SURPRISE = "a difference that is not expected"
    UNLISTED = "refused by name, and not expected to be"
    STALE = "expected to fail, and passes"


KINDS = {"internals": Kind.INTERNALS, "decided": Kind.DECIDED, "refused": Kind.REFUSED, "gap": Kind.GAP}


class Verdict(NamedTuple):
    """What became of one test in one mode, "root" or "islands", and why."""

    test: str
    mode: str
    kind: Kind
    why: str = ""


class Expected(NamedTuple):
    """A test that is expected to fail.

    Attributes:
        kind: one of KINDS.
        why: a sentence.
        modes: those in which it fails.
    """

    kind: Kind
    why: str
    modes: Sequence[str]


def load_expected(path: Path = EXPECTED) -> dict[str, Expected]:
    """The tests that are expected to fail, by their ids."""
    found: dict[str, Expected] = {}
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["expected"]:
        for test in group["tests"]:
            assert test not in found, f"{test} stands in {path.name} twice"
            found[test] = Expected(KINDS[group["kind"]], group["why"], group.get("modes", ("root", "islands")))
    return found


def counted(plain: Mapping[str, Any]) -> list[str]:
    """The tests that go through a Runner, and pass with ADK."""
    return [test for test, note in plain.items() if note.get("calls") and note.get("outcome") == "passed"]


def judged(plain: Mapping[str, Any], found: Mapping[str, Any], mode: str, expected: Mapping[str, Expected]) -> Iterator[Verdict]:
    """A verdict for each test that goes through a Runner and passes with ADK."""
    for test in counted(plain):
        note = found.get(test, {})
        known = expected.get(test)
        if known is not None and mode not in known.modes:
            known = None
        if note.get("outcome") == "passed":
            yield Verdict(test, mode, Kind.STALE, known.why) if known else Verdict(test, mode, Kind.PASSED)
        elif known is not None:
            yield Verdict(test, mode, known.kind, known.why)
        elif note.get("refused"):
            yield Verdict(test, mode, Kind.UNLISTED, note["refused"])
        else:
            yield Verdict(test, mode, Kind.SURPRISE, " ".join(str(note.get("error", "not run")).split())[:300])


SURPRISES = (Kind.SURPRISE, Kind.UNLISTED, Kind.STALE)
"""The verdicts that no list expects."""


def unknown(plain: Mapping[str, Any], expected: Mapping[str, Expected]) -> list[str]:
    """The tests that are expected to fail and are not judged: there are no such tests, or they fail with ADK as well."""
    return sorted(expected.keys() - set(counted(plain)))


def table(plain: Mapping[str, Any], verdicts: Sequence[Verdict]) -> str:
    """The counts, as rows of a page."""
    counts = Counter((verdict.mode, verdict.kind) for verdict in verdicts)
    modes = list(dict.fromkeys(verdict.mode for verdict in verdicts))
    passed = sum(note.get("outcome") == "passed" for note in plain.values())
    head = f"{len(plain)} tests, {passed} pass with ADK, {len(counted(plain))} of these go through a Runner:"
    rows = [f"| | {' | '.join(modes)} |", "|---|" + "---|" * len(modes)]
    rows += [f"| {kind} | {' | '.join(str(counts[mode, kind]) for mode in modes)} |" for kind in Kind]
    return "\n".join([head, "", *rows])
