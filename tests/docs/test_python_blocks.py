"""Every Python block of README and docs does what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import runs
from tests.docs.pages import ROOT, Block, Page, blocks, pages

BLOCKS = blocks("python")
LANGUAGES = {"python", "sh", "text"}
INSIDE = {"extending.md", "layers.md"}
"""Pages for readers of the code."""
OURS = re.compile(r"^ *(?:from|import) (?:actors|runtime)\b", re.MULTILINE)
MODEL_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.note("not run") is None], ids=str)
def test_a_python_block_runs(
    block: Block, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in MODEL_KEYS:
        monkeypatch.delenv(key, raising=False)
    whole = runs.chain(block, BLOCKS)
    if any(each.note("on Ray") is not None for each in whole):
        request.getfixturevalue("local_ray")
    printed = runs.run(whole, monkeypatch)
    if block.output is not None:
        assert printed == block.output


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.note("not run") is not None], ids=str)
def test_a_block_that_is_not_run_names_nothing_that_is_not_there(block: Block) -> None:
    assert block.note("not run"), f"{block} does not say why"
    if "ray.data" in block.code:
        pytest.importorskip("pyarrow", reason="Ray Data has an environment of its own: make test-extras", exc_type=ImportError)
    assert runs.unknown_names(block) == []


def test_pages_and_examples_import_from_raygrove() -> None:
    assert [str(block) for block in BLOCKS if OURS.search(block.code) and block.page.name not in INSIDE] == []
    examples = (ROOT / "examples").rglob("*.py")
    assert [path.name for path in examples if OURS.search(path.read_text(encoding="utf-8"))] == []


def test_blocks_that_are_not_run_are_few() -> None:
    assert len([block for block in BLOCKS if block.note("not run") is not None]) <= 2


def test_every_block_is_of_a_language_that_is_tested() -> None:
    assert [str(block) for page in pages() for block in page.blocks if block.info not in LANGUAGES] == []


def test_names_and_keywords_that_are_not_there_are_found() -> None:
    code = "from runtime import Runtime\nRuntime(root, app_name='a', detach=True)\nRuntime.join('a')\n"
    found = runs.unknown_names(Block(ROOT / "README.md", 1, "python", code))
    assert found == ["root", "Runtime(detach=)", "Runtime.join"]


def test_a_block_is_found_with_its_notes_and_its_output() -> None:
    text = '<!-- on Ray -->\n<!-- replies: ["x"] -->\n\n```python\nprint(1)\n```\n\n```text output\n1\n```\n\n```sh\nmake\n```\n'
    first, second = Page(ROOT / "README.md", text).blocks
    assert (first.line, first.code, first.output) == (5, "print(1)\n", "1\n")
    assert (first.note("on Ray"), first.note("replies"), first.note("continues")) == ("", '["x"]', None)
    assert (second.info, second.notes, second.output) == ("sh", (), None)
