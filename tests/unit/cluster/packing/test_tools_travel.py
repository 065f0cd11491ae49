"""Tools of a program's `__main__` are pickled by value on their way to an agent's actor."""

from __future__ import annotations

from typing import Any

from ray import cloudpickle

from actors import FunctionTool

MAIN = """
from __future__ import annotations

from typing import Literal

from actors import ToolContext, tool


@tool(long_running=True)
def ask(size: Literal["small", "big"], times: int = 1, *, where: ToolContext) -> str:
    \"\"\"Ask somebody.

    Args:
        size: how much.
    \"\"\"
    return size * times
"""


def travelled() -> tuple[FunctionTool, FunctionTool]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(MAIN, "main.py", "exec"), names)
    return names["ask"], cloudpickle.loads(cloudpickle.dumps(names["ask"]))  # type: ignore[no-untyped-call]


def test_a_tool_whose_annotations_are_texts_arrives_as_it_was() -> None:
    left, arrived = travelled()
    assert arrived.declaration() == left.declaration()
    assert (type(arrived), arrived.is_long_running) == (type(left), True)
    assert arrived(size="big", times=2, where=None) == "bigbig"
