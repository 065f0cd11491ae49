"""README, the pages beside it and those under `docs/`, taken apart: code blocks, headings, links, quoted paths and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_NO_SLUG = re.compile(r"[^\w\- ]")


class Found(NamedTuple):
    """A piece of a page, with the number of its line."""

    line: int
    text: str


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        line: of the first line of the code.
        info: what stands behind the fence, such as `python` or `text output`.
        notes: the HTML comments directly above it, which tell the tests how to run it.
        output: the `text output` block that follows it; None when nothing says what it prints.
    """

    page: Path
    line: int
    info: str
    code: str
    notes: tuple[str, ...] = ()
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def note(self, name: str) -> str | None:
        """The rest of the note that begins with `name`; None without one."""
        return next((note.removeprefix(name).lstrip(": ") for note in self.notes if note.startswith(name)), None)


class Page:
    """One file of Markdown.

    Args:
        path: of the file.
        text: what stands in it; None reads the file.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text() if text is None else text

    @cached_property
    def _tokens(self) -> Sequence[Token]:
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """Its fenced code blocks, without the `text output` blocks, which belong to the block above them."""
        found: list[Block] = []
        notes: list[str] = []
        # Without what stands in lines and tables: each process of a test run takes all pages apart when it collects the tests.
        for token in self._tokens_of_blocks():
            if token.type == "html_block":
                notes += _COMMENT.findall(token.content)
            elif token.type == "fence" and token.info == "text output":
                found[-1] = Block(**{**vars(found[-1]), "output": token.content})
                notes = []
            else:
                if token.type == "fence":
                    found.append(Block(self.path, _line(token) + 1, token.info.strip(), token.content, tuple(notes)))
                notes = []
        return found

    @cached_property
    def anchors_in_order(self) -> Sequence[str]:
        """The fragment by which links reach each of its headings, as GitHub makes them."""
        found: dict[str, int] = {}
        anchors = []
        for heading in self.headings:
            slug = _NO_SLUG.sub("", heading.text.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
            anchors.append(f"{slug}-{found[slug]}" if found[slug] else slug)
            found.setdefault(anchors[-1], 0)
        return anchors

    @cached_property
    def anchors(self) -> frozenset[str]:
        """All of them, to look into."""
        return frozenset(self.anchors_in_order)

    @cached_property
    def headings(self) -> Sequence[Found]:
        """Its headings, without marks."""
        pairs = zip(self._tokens, self._tokens[1:], strict=False)
        return [Found(_line(inline), _plain(inline)) for opened, inline in pairs if opened.type == "heading_open"]

    @cached_property
    def links(self) -> Sequence[Found]:
        """Where its links and images lead."""
        found = []
        for line, token in self._inline():
            target = token.attrs.get("href") or token.attrs.get("src")
            if target is not None:
                found.append(Found(line, str(target)))
        return found

    @cached_property
    def quoted(self) -> Sequence[Found]:
        """What stands between backticks in its text."""
        return [Found(line, token.content) for line, token in self._inline() if token.type == "code_inline"]

    def _tokens_of_blocks(self) -> Sequence[Token]:
        return MarkdownIt("commonmark").disable("inline").parse(self.text)

    def _inline(self) -> Iterator[tuple[int, Token]]:
        for token in self._tokens:
            for child in token.children or ():
                yield _line(token), child

    def rows(self, heading: str) -> list[list[str]]:
        """The rows of all tables below a heading, up to the next heading of any level, without the rows of heads."""
        rows: list[list[str]] = []
        is_below = in_body = False
        for token, following in zip(self._tokens, [*self._tokens[1:], None], strict=True):
            if token.type == "heading_open" and following is not None:
                is_below = _plain(following) == heading
            in_body = token.type == "tbody_open" or (in_body and token.type != "tbody_close")
            if is_below and in_body and token.type == "tr_open":
                rows.append([])
            if is_below and in_body and token.type == "td_open" and following is not None:
                rows[-1].append(following.content)
        return rows


@cache
def pages() -> Sequence[Page]:
    """README, then the other pages beside it, and everything under `docs/`."""
    others = sorted(path for path in ROOT.glob("*.md") if path.name != "README.md")
    return [Page(path) for path in (ROOT / "README.md", *others, *sorted((ROOT / "docs").rglob("*.md")))]


def blocks(language: str) -> list[Block]:
    """All code blocks of a language."""
    return [block for page in pages() for block in page.blocks if block.info == language]


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map is not None else 0


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
