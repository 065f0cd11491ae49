"""Draws README's picture from a run of `examples/killed.py`: `python -m tests.docs.picture` writes `docs/killed.svg`."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO

from rich.console import Console
from rich.text import Text

from tests.docs.pages import ROOT

_FONT = re.compile(r"<!--.*?-->\s*|@font-face \{.*?\}\s*", re.DOTALL)


def draw(printed: str) -> str:
    """An SVG of a terminal in which the example ran."""
    # As wide as its longest line: GitHub shrinks pictures that are wider than its pages.
    console = Console(record=True, width=max(map(len, printed.splitlines())) + 1, file=StringIO(), force_terminal=True)
    console.print(Text("$ python examples/killed.py", style="bold"))
    for line in printed.splitlines():
        style = "bold red" if line.startswith("$") else "green" if line.startswith("desk:") else ""
        console.print(Text(line, style=style))
    # Without the font, which rich has loaded from another host.
    return _FONT.sub("", console.export_svg(title="one turn, three kills", unique_id="killed"))


def main() -> None:
    """Run the example and draw it."""
    done = subprocess.run([sys.executable, ROOT / "examples" / "killed.py"], check=True, stdout=subprocess.PIPE, text=True)
    (ROOT / "docs" / "killed.svg").write_text(draw(done.stdout))


if __name__ == "__main__":
    main()
