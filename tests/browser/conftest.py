"""One Chromium for all tests of the inspector; each test has pages from cold that reach its server only, without errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from actors import ModelLimits, Price
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.web import app_for
from tests.browser.apps import concierge, errands, line, press, shop, stepped
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]

expect.set_options(timeout=30_000)

DESK = Settings(
    record_requests=1.0,
    model_limits={"metered": ModelLimits(max_concurrency=8)},
    prices={"metered": Price(input=1_000, output=10_000)},
)

Opened = Callable[..., Page]
"""Opens a page of its own, at the place that is named by keywords, as the page's address has them."""

ONE_IN = 9
"""Of the tests of a file CI has one in so many: an odd number, so that the engines take turns."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all but a sample as tests of the full set: `-m 'browser and not full'` has the sample."""
    item.add_marker(pytest.mark.sampled(ONE_IN, of="module"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines. All tests of the one come before those of the other, and share its apps."""
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return str(request.param)


@pytest.fixture(scope="session")
def gates(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a model waits for a test."""
    return tmp_path_factory.mktemp(f"gates-{engine}")


@pytest.fixture(scope="session")
def runtimes(engine: str, gates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Runtime]]:
    """The apps, by their names."""
    deploy = Deploy(engine, tmp_path_factory.mktemp("stores"))
    with pytest.MonkeyPatch.context() as environment:
        # One process for the agents of an app: the start of a process is most of what a test costs on Ray.
        environment.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
        with (
            deploy(concierge(), app_name="desk", settings=DESK) as desk,
            deploy(stepped(gates), app_name="slow") as slow,
            deploy(shop(), app_name="shop") as shopping,
            deploy(press(gates), app_name="press") as pressing,
            deploy(line(), app_name="line") as lined,
            deploy(errands(), app_name="errands") as flow,
        ):
            yield {"desk": desk, "slow": slow, "shop": shopping, "press": pressing, "line": lined, "errands": flow}


@pytest.fixture(scope="session")
def url(runtimes: dict[str, Runtime]) -> Iterator[str]:
    with serving(app_for(*runtimes.values())) as url:
        yield url


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """A user of the test's own."""
    return str(request.node.originalname)


@pytest.fixture
def opening(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, at a place of the inspector if one is given, that must make no errors, and must ask nothing of other hosts.
    Where a test expects that requests are refused, the browser's own lines about these are no errors."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def opening(url: str, place: str | None = None, expects_refusals: bool = False, **options: Any) -> Page:
        def only(route: Route) -> None:
            if route.request.url.startswith((url, "blob:")):
                route.continue_()
            else:
                errors.append(f"asked {route.request.url}")
                route.abort()

        context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        contexts.append(context)
        context.route("**/*", only)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda said: (
                errors.append(f"{said.text} {said.location['url']}")
                if said.type in ("error", "warning")
                and not (expects_refusals and said.text.startswith("Failed to load resource: "))
                else None
            ),
        )
        if place is not None:
            page.goto(f"{url}/ui/?{place}")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def opened(opening: Callable[..., Page], url: str) -> Opened:
    """Opens the inspector from cold at a place."""

    def opened(**place: str) -> Page:
        return opening(url, "&".join(f"{name}={value}" for name, value in place.items()))

    return opened


def say(page: Page, text: str) -> None:
    """Send a message."""
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")
