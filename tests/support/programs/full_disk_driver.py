"""A driver whose files may not grow beyond a limit, for a while: what a full disk looks like from inside.

Argument: the folder of the stores. Prints JSON: the class of the error of each kind of store while the
disk was full, and the log after there was room again.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors import LlmAgent, Part
from actors.errors import RaygroveError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn

LIMIT = 400_000
LARGE = "x" * 1_000_000


def main(folder: Path) -> dict[str, Any]:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    with Deploy("local", folder)(root, settings=Settings(store_timeout_s=0.3)) as rt:
        run_turn(rt, "before")
        rt.memory.add_session("ada", "s1")
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, most))
        failed = {
            "turn": _failure(lambda: run_turn(rt, LARGE)),
            "session": _failure(lambda: rt.sessions.create("ada", "s2", state={"large": LARGE})),
            "artifact": _failure(lambda: rt.artifacts.save("ada", "s1", "large", Part(text=LARGE))),
        }
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        run_turn(rt, LARGE)
        rt.artifacts.save("ada", "s1", "large", Part(text=LARGE))
        rt.memory.add_session("ada", "s1")
        return {"failed": failed, "log": _log(rt), "sessions": [session.id for session in rt.sessions.list()]}


def _failure(work: Callable[[], object]) -> str:
    try:
        work()
    except RaygroveError as error:
        return type(error).__name__
    return "none"


def _log(rt: Runtime) -> list[tuple[int, str, int]]:
    session = rt.sessions.get("ada", "s1")
    assert session is not None
    return [(event.seq, event.author, len(event.text)) for event in session.events]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
