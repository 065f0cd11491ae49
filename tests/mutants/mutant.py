"""A mutant, and the files that say them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
"""The checkout."""


class StaleMutantError(Exception):
    """Raised when the old text of a mutant is not once in its file."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a file.

    Attributes:
        file: its path below the root of the checkout.
        old: what it says, once.
        new: what it says with the mutant.
    """

    file: str
    old: str
    new: str


class Mutant(msgspec.Struct, frozen=True):
    """A defect.

    Attributes:
        name: of the mutant.
        what: what the code does with it, in a line.
        changes: that make it.
    """

    name: str
    what: str
    changes: tuple[Change, ...]

    def texts(self, root: Path = ROOT) -> Mapping[str, str]:
        """The files of a checkout that it changes, by path, as they are with it.

        Raises:
            StaleMutantError: the code has changed; the message says which mutant, file and text.
            SyntaxError: it makes a file that is no Python.
        """
        found: dict[str, str] = {}
        for change in self.changes:
            path = root / change.file
            text = found.get(change.file) or (path.read_text() if path.is_file() else "")
            if (times := text.count(change.old)) != 1:
                raise StaleMutantError(f"mutant {self.name}: {change.file} has this {times} times, and not once:\n{change.old}")
            found[change.file] = text.replace(change.old, change.new)
        for file, text in found.items():
            if file.endswith(".py"):
                compile(text, file, "exec", dont_inherit=True)
        return found

    def lines(self) -> Iterator[tuple[str, range]]:
        """The files of this checkout that it changes, and which of their lines."""
        for change in self.changes:
            text, at = (ROOT / change.file).read_text(), 0
            begin = text.index(change.old)
            while change.old[at : at + 1] == change.new[at : at + 1] != "":
                at += 1
            yield (
                change.file,
                range(text.count("\n", 0, begin + at) + 1, text.count("\n", 0, begin + len(change.old.rstrip())) + 2),
            )


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A mutant as a file has it: one change, or several."""

    what: str = ""
    name: str = ""
    file: str = ""
    old: str = ""
    new: str = ""
    changes: tuple[Change, ...] = ()


def read_mutants(path: Path) -> Mapping[str, Mutant]:
    """The mutants of a file, by name. Raises `msgspec.ValidationError` when it is not such a file."""
    if path.suffix == ".json":
        rows = {row.name: row for row in msgspec.json.decode(path.read_bytes(), type=list[_Row])}
    else:
        rows = msgspec.toml.decode(path.read_bytes(), type=dict[str, _Row])
    return {name: Mutant(name, row.what, row.changes or (Change(row.file, row.old, row.new),)) for name, row in rows.items()}
