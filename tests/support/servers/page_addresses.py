"""What the inspector may ask of a server: the page's own list, out of its sources. It sends nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[3] / "runtime/frontends/web/ui/src/addresses.js"

ADDRESSES = re.findall(r'^ {2}"([A-Z]+) (\S+)",$', SOURCE.read_text(), re.MULTILINE)
"""Method, and template below /v1/."""

PUBLIC = {"me", "apps", "apps/{app}/agents"}
"""What is of no user: who one is, and the tree."""


def path_of(template: str, *, app: str, session: str = "s", turn: str = "t", name: str = "a.txt", batch: str = "b") -> str:
    """The path of an address."""
    return f"/v1/{template.format(app=app, session=session, turn=turn, name=name, batch=batch)}"


def body_of(method: str, template: str) -> dict[str, Any] | None:
    """What is sent there, about the turn `t`; None without a body."""
    bodies: dict[str, dict[str, Any]] = {
        "turns": {"message": "hi"},
        "sessions": {"id": "adas"},
        "answers": {"answers": {"call": True}},
        "fork": {"invocationId": "t", "id": "forked"},
        "rewind": {"invocationId": "t"},
    }
    return bodies.get(template.rpartition("/")[2]) if method == "POST" else None
