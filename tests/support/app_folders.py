"""Apps as users write them: folders and files with agents, for the commands that load them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

HELLO = """
    from actors import LlmAgent
    from actors.testing import PatternModel

    root_agent = LlmAgent(name="greeter", model=PatternModel([("hi", "Hello, my friend!")], default="Pardon?"))
"""
"""The `agent.py` of an app that greets."""

DESK_TOOLS = '''
    import os

    from actors import tool


    @tool
    def lookup_order(order_id: str) -> dict:
        """Look up an order."""
        from .orders import STATUS

        return {"status": STATUS[order_id], "pid": os.getpid(), "key": os.environ.get("DESK_KEY", "")}


    @tool(require_confirmation=True)
    def refund(amount: int) -> dict:
        """Pay money back."""
        return {"paid": amount}


    @tool(long_running=True)
    def ask_manager(question: str) -> None:
        """Ask the manager."""
'''

DESK = """
    from actors import LlmAgent
    from actors.testing import PatternModel

    from .tools import ask_manager, lookup_order, refund

    billing = LlmAgent(
        name="billing",
        description="Orders.",
        tools=[lookup_order, refund, ask_manager],
        model=PatternModel(
            [
                ("late", {"call": "lookup_order", "args": {"order_id": "42"}}),
                ("tool:lookup_order", "It is on its way."),
                ("refund", {"call": "refund", "args": {"amount": 80}}),
                ('tool:refund.*"paid"', "80 euros are yours."),
                ("tool:refund", "Then not."),
                ("manager", {"call": "ask_manager", "args": {"question": "May I?"}}),
                ("tool:ask_manager.*yes", "The manager agrees."),
                ("tool:ask_manager", "The manager says no."),
            ],
            default="Billing here.",
        ),
    )
    root_agent = LlmAgent(
        name="concierge",
        model=PatternModel([("late|refund|manager", {"transfer": "billing"}), ("slow", "A " * 10)], default="How can I help?"),
        sub_agents=[billing],
    )
"""


def desk(folder: Path) -> Path:
    """An app in a folder, with relative imports: a concierge, and billing with tools that look up, ask and wait."""
    return write(folder, {"agent.py": DESK, "tools.py": DESK_TOOLS, "orders.py": 'STATUS = {"42": "late"}\n'})


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files into a folder. Returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(dedent(text).lstrip("\n"))
    return folder


@contextmanager
def fresh_imports() -> Iterator[None]:
    """Take back what loading apps does to this process: its path, modules and environment.

    No bytecode is kept of them: Python takes it for that of a file which was written anew in the same second, as long as before.
    """
    path, modules, environment = list(sys.path), set(sys.modules), dict(os.environ)
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_none
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and not any(file.startswith(f"{place}/") for place in path if place):
                del sys.modules[name]
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
