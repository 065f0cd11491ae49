"""A program that runs examples on the local engine, and prints the version of each tree: at its start, and after use."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import sys
from typing import Any

import raygrove
from actors.errors import RuntimeClosedError
from runtime import Runtime
from tests.support.examples import EXAMPLES

FOUND: list[tuple[str, str]] = []


class Watched(Runtime):
    """A Runtime on the local engine that notes the version of its tree at its start and at its end."""

    def __init__(self, root: Any, **options: Any) -> None:
        super().__init__(root, **{**options, "engine": "local"})
        self._given: dict[str, Any] = {"root_agent": root, "plugins": options.get("plugins", ())}

    def close(self, *, leave_turns: bool = False) -> None:
        """Note both, and close it."""
        with contextlib.suppress(RuntimeClosedError):
            FOUND.append((self.versions()[0].id, self.update(**self._given, dry_run=True).version))
        super().close(leave_turns=leave_turns)


def main() -> None:
    vars(raygrove)["Runtime"] = Watched
    sys.path.insert(0, str(EXAMPLES))
    for name in sys.argv[1:]:
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            ran = importlib.import_module(name).main()
            if inspect.isawaitable(ran):
                asyncio.run(_waited(ran))
        for before, after in FOUND:
            print(name, before, after)
        FOUND.clear()


async def _waited(ran: Any) -> None:
    await ran


if __name__ == "__main__":
    main()
