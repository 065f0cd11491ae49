"""Ctrl-C at any moment in which a program's main thread may be: it comes out, and the Runtime goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime

Use = Callable[[Runtime, str], object]
"""What a program does with a Runtime, in a session."""


class Interrupt:
    """Ctrl-C when the interpreter looks for it the nth time: where a function begins, and where one written in C has returned.

    Attributes:
        places: how often the interpreter has looked for it.
        is_dropped: it came in the midst of a finalizer, out of which Python lets no exception.
    """

    def __init__(self, at: int) -> None:
        self.places = 0
        self.is_dropped = False
        self._at = at

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        # Where `with` has just entered a lock the interpreter does not look for it. That of 3.14 does, until it is mended, and
        # the lock stays taken: python/cpython#148874.
        if event == "call" or (event == "c_return" and argument.__name__ != "__enter__"):
            self.places += 1
            if self.places == self._at:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def _drop(self, unraisable: Any) -> None:
        self.is_dropped = isinstance(unraisable.exc_value, KeyboardInterrupt)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Press Ctrl-C within the block."""
        hook, sys.unraisablehook = sys.unraisablehook, self._drop
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            sys.unraisablehook = hook


def iterate(rt: Runtime, session: str) -> object:
    return [event.text for event in rt.run(user_id="u", session_id=session, message="hi")]


def result(rt: Runtime, session: str) -> object:
    return rt.run(user_id="u", session_id=session, message="hi").result()


def leave(rt: Runtime, session: str) -> object:
    turn = rt.run(user_id="u", session_id=session, message="hi")
    next(iter(turn))
    turn.cancel()
    return turn


def read(rt: Runtime, session: str) -> object:
    return rt.sessions.get("u", "s0")


def map_inputs(rt: Runtime, session: str) -> object:
    return list(rt.map(["a", "b"], name=session, progress=False))


USES = {use.__name__: use for use in (iterate, result, leave, read, map_inputs)}


def interrupt_everywhere(use: Use, folder: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    with Runtime(root, app_name="interrupted", engine="local", session_store=f"sqlite:///{folder}/sessions.db") as rt:
        result(rt, "s0")
        use(rt, "first")
        counting = Interrupt(0)
        with counting.coming():
            use(rt, "second")
        assert counting.places > 20
        for at in range(1, counting.places + 1):
            interrupt = Interrupt(at)
            try:
                with interrupt.coming():
                    use(rt, f"s{at}")
            except KeyboardInterrupt:
                pass
            else:
                # A thread that is quicker than before may leave fewer places.
                assert interrupt.is_dropped or interrupt.places < at
            assert rt.run(user_id="u", session_id=f"s{at}", message="go on").result().text == "ok"
    print("went on", counting.places, "times")


@pytest.mark.full
@pytest.mark.sampled(full=5)
@pytest.mark.parametrize("use", USES)
def test_it_comes_out_and_takes_nothing_along(use: str, tmp_path: Path) -> None:
    """In a program of its own, where no other test's code is interrupted, or sees the profile function."""
    warnings = ["-W", "error", "-W", "ignore:coroutine:RuntimeWarning"]
    program = [sys.executable, "-X", "faulthandler", *warnings, "-m", __name__, use, str(tmp_path)]
    ended = subprocess.run(program, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=100, check=False)
    assert (ended.stdout[:7], ended.returncode) == ("went on", 0), ended.stderr
    assert "Exception ignored" not in ended.stderr


if __name__ == "__main__":
    interrupt_everywhere(USES[sys.argv[1]], Path(sys.argv[2]))
