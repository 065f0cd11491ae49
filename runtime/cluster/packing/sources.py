"""Lines of code that another process cannot read from a file: of notebooks, of consoles, and of the program itself.

Functions of such code travel by value, and Python finds the lines for their tracebacks in `linecache`.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

MAX_SOURCE = 128 * 1024
"""Characters of code from one notebook's cell or program, beyond which it stays at home."""


TOGETHER = 1_000
"""Pickles that are searched at once for names that occur in none of them: a tree has a hundred thousand."""


def sources_of(pickles: Sequence[bytes]) -> list[dict[str, str]]:
    """The code of which there are functions in each pickle, by file name: that of cells and of the main program.

    Pickles with functions of the same files share one mapping.
    """
    sources = {name.encode(): (name, text) for name, text in _sources() if len(text) <= MAX_SOURCE}
    made: dict[tuple[bytes, ...], dict[str, str]] = {}
    found: list[dict[str, str]] = []
    for first in range(0, len(pickles), TOGETHER):
        some = pickles[first : first + TOGETHER]
        joined = b"".join(some)
        names = [name for name in sources if name in joined]
        for pickled in some:
            here = tuple([name for name in names if name in pickled])
            if here not in made:
                made[here] = dict(sources[name] for name in here)
            found.append(made[here])
    return found


def _sources() -> Iterator[tuple[str, str]]:
    for name, entry in list(linecache.cache.items()):
        # Entries of one part name a loader, and are of importable modules.
        if len(entry) == 4 and not os.path.exists(name):
            yield name, "".join(entry[2])
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if program is not None:
        lines = linecache.getlines(program)
        if lines:
            yield program, "".join(lines)


def install_sources(sources: Mapping[str, str]) -> None:
    """Have tracebacks of this process show lines of such code. Files that are there are read instead."""
    for name, text in sources.items():
        if not os.path.exists(name):
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
