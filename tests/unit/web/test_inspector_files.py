"""The inspector's files: what is served is what the sources make, and the wheel has it: nothing is built where it runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from actors.errors import DefinitionError
from runtime.frontends.web.ui.page import STATIC, InspectorPage

UI = STATIC.parent
MAX_COMPRESSED_BYTES = 80_000


def test_the_page_was_built_of_these_sources() -> None:
    sources = [UI / "build.js", UI / "package-lock.json", UI / "package.json"]
    sources += [path for path in (UI / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(sources, key=lambda path: path.relative_to(UI).as_posix()):
        digest.update(path.relative_to(UI).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest(), "the page is older than its sources: make web"


def test_a_page_that_was_not_built_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="make web"):
        InspectorPage(tmp_path)


@pytest.mark.full
def test_the_wheel_has_the_page_and_serves_it_without_anything_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], check=True, capture_output=True
    )
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        inside = {
            info.filename: info.compress_size
            for info in packed.infolist()
            if info.filename.startswith("runtime/frontends/web/ui/")
        }
        packed.extractall(tmp_path / "installed")
    names = {Path(name).relative_to("runtime/frontends/web/ui").as_posix() for name in inside}
    served = {"icon.svg", "index.html", "inspector.css", "inspector.js", "LICENSES.txt", "sources.sha256"}
    assert names == {"__init__.py", "page.py"} | {f"static/{name}" for name in served}
    assert sum(size for name, size in inside.items() if "/static/" in name) < MAX_COMPRESSED_BYTES
    program = "import runtime.frontends.web.ui.page as page; page.InspectorPage(); print(page.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
