"""A program with a map on the local engine, which a test kills and starts again.

Arguments: the folder of its store and of its notes, how many inputs, how many at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from actors import LlmAgent
from tests.support.models.map_models import NotedModel
from tests.support.runtimes import Deploy

CALL_S = 0.05


def inputs(number: int) -> Iterator[str]:
    """As many texts."""
    return (f"input {each}" for each in range(number))


def main(folder: Path, number: int, concurrency: int) -> None:
    """Run the map, and write each result into a file."""
    root = LlmAgent(name="echo", model=NotedModel(folder / "calls", CALL_S))
    with Deploy("local", folder)(root) as rt, (folder / "results").open("a") as file:
        for result in rt.map(inputs(number), name="nightly", concurrency=concurrency):
            file.write(f"{result.invocation_id}\t{result.input}\t{result.text}\n")
            file.flush()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    except KeyboardInterrupt:
        sys.exit(130)
