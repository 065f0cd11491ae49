"""Folders of skills, as people publish them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOGO = b"\x89PNG\r\n\x1a\n\x00\xff"

MINUTES_MD = """\
---
name: meeting-minutes
description: "Writes minutes of meetings: who was there, what was decided. Use when the user has notes of a meeting."
license: Apache-2.0
compatibility: Needs Python 3.11 for scripts.
metadata:
  author: ada
  version: "1.0"
allowed-tools: Read Bash(python:*)
---

# Minutes

1. Read [the form](references/form.md).
2. Count the words with `scripts/count.py FILE`.
"""

COUNT = """\
import sys
from pathlib import Path

from words import words_of

title = Path("references/form.md").read_text().splitlines()[0]
Path("counted.txt").write_text(str(len(words_of(sys.argv[1]))))
print(title, sys.argv[1:])
if __name__ == "__main__" and len(sys.argv) > 2:
    sys.exit(int(sys.argv[2]))
"""

WORDS = """\
from pathlib import Path


def words_of(file):
    return Path(file).read_text().split()
"""

MINUTES: Mapping[str, str | bytes] = {
    "SKILL.md": MINUTES_MD,
    "references/form.md": "# The form\n\nWho, what, when.\n",
    "references/example.py": "print('run')",
    "assets/logo.png": LOGO,
    "scripts/count.py": COUNT,
    "scripts/words.py": WORDS,
    "scripts/list.sh": 'echo "$1: $(ls references)"; cd scripts; ls | wc -l >&2\n',
    "scripts/draw.js": "1",
}


def skill_folder(root: Path, name: str = "meeting-minutes", files: Mapping[str, str | bytes] = MINUTES) -> Path:
    """Write a skill into a folder below a root, and return the root."""
    for path, data in files.items():
        file = root / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def skill_md(name: str, description: str = "Does something.", instructions: str = "Do it.") -> Mapping[str, str | bytes]:
    """The files of a skill that has a SKILL.md only."""
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n---\n{instructions}\n"}
