"""The documentation as a site: lays its pages out for the builder, and looks at what that has built. `make docs` does both.

Pages link to each other, to examples and to tests as GitHub shows them. The site gets every file that a page links to: README as
its first page, each page of `docs/` under its name, a page with the text of every other file below `source/`. Below `api/` is the
reference of all public names, which the builder makes from their docstrings. Links are changed to lead there, so that pages are
written for one place and work in both.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.docs.pages import ROOT, Page

BUILD = ROOT / "build"

PUBLIC = ("actors", "runtime", "runtime.web", "runtime.testing", "actors.testing", "actors.errors.tree")
"""The modules whose `__all__` the reference has. raygrove has the names of the first two."""

MODELS = ("gemini.Gemini", "openai.OpenAIModel", "anthropic.AnthropicModel", "fallback.FallbackModel", "service.ServiceModel")
"""Classes of `runtime.models` that programs name; each is imported from the module of its service."""

API = {
    "Runtime": ("runtime.driver",),
    "Services of a Runtime": ("services",),
    "Agents": ("actors.definitions.agents",),
    "Tools": (
        "actors.definitions.tools",
        "actors.layers.tools",
        "actors.layers.mcp.toolset",
        "actors.layers.schedules.reminders",
        "runtime.integrations",
    ),
    "Graphs": ("actors.layers.graphs.definitions", "actors.layers.graphs.rules"),
    "Flows": ("actors.layers.flows.definitions", "actors.layers.flows.rules", "actors.messages.flow"),
    "Models": ("runtime.models", "actors.messages.llm", "actors.interfaces.model"),
    "Messages, events and settings": ("actors", "runtime"),
    "What operators see": (
        "actors.messages.costs",
        "actors.layers.spending.messages",
        "actors.layers.stores",
        "runtime.driver.turns.description",
        "actors.messages.turn_info",
        "runtime.frontends.console",
    ),
    "Apps over HTTP": ("runtime.web",),
    "Testing": ("runtime.testing", "actors.testing"),
    "Errors": ("actors.errors",),
}
"""Pages of the reference, and where the things on them are defined; the longest beginning counts."""

_LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
_FENCE = re.compile(r" *(```+|~~~+)(.*)")
_HEADING = re.compile(r"#{1,6} ")
_NUMBERED = re.compile(r"\d+\. ")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "sh", ".json": "json", ".js": "js"}
_HOME = {"README.md": "index.md", "docs/index.md": "contents.md"}


def lay_out(folder: Path = BUILD) -> None:
    """Write the pages, and the configuration with their groups, for the builder."""
    shutil.rmtree(folder / "docs", ignore_errors=True)
    waiting = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    written: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in written:
            continue
        written.add(path)
        target = folder / "docs" / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".png", ".svg"):
            shutil.copyfile(path, target)
        elif path.suffix == ".md":
            text, linked = carried_over(Page(path))
            target.write_text(text)
            waiting += linked
        else:
            target.write_text(shown(path))
    groups = reference()
    for title, names in groups.items():
        target = folder / "docs" / "api" / f"{_slug(title)}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"# {title}\n\n" + "".join(f"::: {name}\n{option}\n" for name, option in names))
    (folder / "site.yml").write_text((ROOT / "docs" / "site.yml").read_text() + navigation(groups))


def place(path: Path) -> str:
    """Where the site has a file of the repository, as a path below its pages."""
    name = path.relative_to(ROOT).as_posix()
    if name in _HOME:
        return _HOME[name]
    if path.parent == ROOT / "docs":
        return path.name
    if path.parent == ROOT and path.suffix == ".md":
        return path.name.lower()
    return f"source/{name}" if path.suffix in (".md", ".png", ".svg") else f"source/{name}.md"


def carried_over(page: Page) -> tuple[str, list[Path]]:
    """The text of a page for the site, and the files of the repository to which it links.

    Headings get the anchors that GitHub gives them, and comments for the tests are left out.
    """
    linked: list[Path] = []
    anchors = iter(page.anchors_in_order)

    def change(link: re.Match[str]) -> str:
        path, mark, anchor = link[0].partition("#")
        target = (page.path.parent / path).resolve()
        if not path or ":" in path or not target.exists():
            return link[0]
        linked.append(target)
        return posixpath.relpath(place(target), posixpath.dirname(place(page.path)) or ".") + mark + anchor

    lines: list[str] = []
    fence = ""
    is_numbered = False
    for line in re.sub(r"^<!--.*?-->\n", "", page.text, flags=re.DOTALL | re.MULTILINE).splitlines():
        is_numbered = bool(_NUMBERED.match(line)) or (is_numbered and not line[:3].strip())
        if is_numbered and line[:3].isspace():
            # What belongs to a numbered point begins below its text on GitHub, and one column further right for the builder.
            line = f" {line}"
        elif _NUMBERED.match(line) and lines and lines[-1].startswith("    "):
            # After a second paragraph the builder sees the next point only behind an empty line.
            lines.append("")
        if found := _FENCE.fullmatch(line):
            fence = "" if fence == found[1] else fence or found[1]
            lines.append(line.replace("text output", "text"))
        elif fence:
            lines.append(line)
        elif _HEADING.match(line):
            lines.append(f"{_LINK.sub(change, line)} {{ #{next(anchors)} }}")
        else:
            lines.append(_LINK.sub(change, line))
    return "\n".join(lines) + "\n", linked


def shown(path: Path) -> str:
    """A page with the text of a file, or with the names of a folder's files."""
    title = f"# `{path.relative_to(ROOT)}`\n\n"
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir() if not each.name.startswith(("__", ".")))
        return title + "".join(f"- `{name}`\n" for name in names)
    return f"{title}``````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n``````\n"


def reference() -> Mapping[str, Sequence[tuple[str, str]]]:
    """By page of the reference, its names as the builder finds them, each with options for the builder."""
    found: dict[str, list[tuple[str, str]]] = {title: [] for title in API}
    for module in map(import_module, PUBLIC):
        for name in module.__all__:
            found[_page_of(module, name)].append((f"{module.__name__}.{name}", ""))
    found["Models"] += [(f"runtime.models.{name}", "") for name in MODELS]
    # The class after which a page is called comes first.
    for title, names in found.items():
        names.sort(key=lambda each: each[0].rpartition(".")[2] != title)
    for attribute, service in services():
        heading = (
            f"    options:\n      heading: rt.{attribute}\n      toc_label: rt.{attribute}\n      merge_init_into_class: false\n"
        )
        found["Services of a Runtime"].append((service, heading))
    return found


def services() -> Iterator[tuple[str, str]]:
    """The services of a Runtime, by its attributes: `sessions` and the path of its class."""
    module = import_module("runtime.driver.services.services")
    for attribute, name in re.findall(r"self\.(\w+) = (\w+Service)\(", Path(str(module.__file__)).read_text()):
        yield attribute, f"{getattr(module, name).__module__}.{name}"


def _page_of(module: ModuleType, name: str) -> str:
    defined = getattr(module, name)
    source = module.__name__ if module.__name__ not in PUBLIC[:2] else str(getattr(defined, "__module__", module.__name__))
    fitting = [(len(each), title) for title, begins in API.items() for each in begins if f"{source}.".startswith(f"{each}.")]
    return max(fitting)[1]


def navigation(groups: Mapping[str, Sequence[object]]) -> str:
    """The groups of docs/index.md and the reference, as the builder's configuration names them."""
    contents = Page(ROOT / "docs" / "index.md")
    lines = ["nav:", "  - raygrove: index.md", "  - All pages: contents.md"]
    for heading in contents.headings[1:]:
        pages = [link for row in contents.rows(heading.text) for link in re.findall(r"\[([^]]+)\]\((\w[\w-]*\.md)\)", row[0])]
        if pages:
            lines += [f"  - {heading.text}:", *(f'      - "{title}": {path}' for title, path in pages)]
    lines += ["  - API:", *(f'      - "{title}": api/{_slug(title)}.md' for title in groups), "  - Contributing: contributing.md"]
    return "\n".join(lines) + "\n"


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


class _Seen(HTMLParser):
    """What a built page loads, links to, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        elif address := given.get("src") or (given.get("href") if tag == "link" else None):
            self.loads.append(address)


def wrong(site: Path = BUILD / "site") -> list[str]:
    """Links of a built site that lead to no page or heading of it, and what pages load from other hosts or cannot load."""
    pages = {path: _Seen(path.read_text()) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links:
            target, _, anchor = link.partition("#")
            to = (path.parent / target).resolve() if target else path
            if ":" in target:
                continue
            if not to.is_file():
                found.append(f"{name}: {link!r} leads to no page")
            elif to in pages and anchor not in pages[to].anchors:
                found.append(f"{name}: {link!r} leads to no heading")
        for address in page.loads:
            if ":" in address or address.startswith("//"):
                found.append(f"{name} loads {address!r} from another host")
            elif not (path.parent / address.partition("?")[0]).resolve().is_file():
                found.append(f"{name} loads {address!r}, which is not there")
    return found


def main(what: str) -> int:
    """Lay the pages out, or look at the site. Returns 1 when something is wrong with it, else 0."""
    if what == "lay-out":
        lay_out()
        return 0
    found = wrong()
    for each in found:
        print(each, file=sys.stderr)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
