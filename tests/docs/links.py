"""Finds links and quoted paths of the documentation that lead nowhere. `python -m tests.docs.links` is a part of `make check`.

Nothing is asked of the network: links to other sites are passed over.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.docs.pages import ROOT, Page, pages

_BUILT = {"build", "dist"}

_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PATH = re.compile(r"[\w.\-]+(/[\w.\-*]+)*/?")


def broken(checked: Sequence[Page]) -> list[str]:
    """What is wrong with the links and quoted paths of pages, each as `page:line: sentence`."""
    by_path = {page.path.resolve(): page for page in checked}
    return [f"{page.path.relative_to(ROOT)}:{wrong}" for page in checked for wrong in _wrong(page, by_path)]


def unreachable(checked: Sequence[Page]) -> list[Path]:
    """The pages to which no chain of links leads from the first."""
    by_path = {page.path.resolve(): page for page in checked}
    reached: dict[Path, None] = {}
    waiting = [checked[0].path.resolve()]
    while waiting:
        path = waiting.pop()
        if path in by_path and path not in reached:
            reached[path] = None
            waiting += [_target(by_path[path], link.text)[0] for link in by_path[path].links if not _ELSEWHERE.match(link.text)]
    return [page.path for page in checked if page.path.resolve() not in reached]


def _wrong(page: Page, by_path: dict[Path, Page]) -> Iterator[str]:
    for line, link in page.links:
        if _ELSEWHERE.match(link):
            continue
        path, anchor = _target(page, link)
        if not path.is_relative_to(ROOT) or not path.exists():
            yield f"{line}: the link {link!r} leads to no file of this repository"
        elif anchor and path in by_path and anchor not in by_path[path].anchors:
            yield f"{line}: the link {link!r} leads to no heading of {path.relative_to(ROOT)}"
        elif anchor and path not in by_path:
            yield f"{line}: the link {link!r} has an anchor, and only README and docs are looked into"
    for line, quoted in page.quoted:
        if _looks_like_a_path(quoted) and not any(ROOT.glob(quoted.rstrip("/"))):
            yield f"{line}: there is no {quoted!r} in this repository"


def _target(page: Page, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return ((page.path.parent / path) if path else page.path).resolve(), anchor


def _looks_like_a_path(text: str) -> bool:
    """True for what begins with a folder of the repository and goes on with a slash."""
    return "/" in text and _PATH.fullmatch(text) is not None and text.split("/")[0] in _folders()


def _folders() -> Iterable[str]:
    """The folders of the repository, without those that `make` builds."""
    return [path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".") and path.name not in _BUILT]


def main() -> int:
    """Print what is broken. Returns 1 when something is, else 0."""
    checked = pages()
    found = broken(checked)
    found += [f"{path.relative_to(ROOT)}: no link leads here from README" for path in unreachable(checked)]
    for each in found:
        print(each, file=sys.stderr)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
