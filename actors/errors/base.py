"""The root of the errors: how an error makes its message of its facts."""

from __future__ import annotations

from typing import ClassVar


class RaygroveError(Exception):
    """The root of the tree.

    Attributes:
        sentence: the message, as a format string over the positional arguments.
        remote_traceback: where users' code failed, when that was in another process or behind an actor; "" when it was not users'
            code. The error has it as a note, too, which Python prints with it.
    """

    sentence: ClassVar[str] = "{0}"
    remote_traceback: str = ""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    def __str__(self) -> str:
        try:
            return self.sentence.format(*self.args)
        except IndexError:
            # Made with too few arguments. Raising here would hide what went wrong.
            return super().__str__() or type(self).__name__
