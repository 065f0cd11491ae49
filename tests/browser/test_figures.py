"""Figures in the inspector: charts over the last minutes, those before the page was opened too, and what actors count."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web import monitoring
from runtime.web import app_for
from tests.browser.conftest import Opened
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.web_server import serving
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy

pytestmark = pytest.mark.browser

TURNS = 10


def chart(page: Page, label: str) -> Locator:
    return page.get_by_role("img", name=f"{label}:")


def test_figures_show_what_actors_do(opened: Opened, user: str, runtimes: dict[str, Runtime], engine: str) -> None:
    page = opened(app="desk", view="figures")
    began = page.get_by_role("img", name="live agents")
    expect(began).to_be_visible()
    session = page.get_by_role("region", name="Session actors")
    # The page may not have read what tests before have done.
    before = runtimes["desk"].statistics().session.counts["events"]
    run_turn(runtimes["desk"], "hi", "s", user)
    expect(session.get_by_role("row", name="events", exact=False).first.get_by_role("cell")).to_have_text(f"{before + 2:,}")
    assert str(runtimes["desk"].statistics().session.pid) in session.inner_text()
    for chart in (
        "spare processes",
        "activations a second",
        "memory of agents",
        "connections",
        "calls of metered under way",
        "calls of metered that wait",
    ):
        expect(page.get_by_role("img", name=chart)).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"memory of agents: [1-9]\d* MB now"))).to_be_visible()
    if engine == "ray":
        expect(page.get_by_role("img", name=re.compile(r"connections: [1-9]\d* now"))).to_be_visible()
        host = next(iter(runtimes["desk"].statistics().processes.values()))
        expect(page.get_by_role("row").filter(has_text=str(host.pid)).last).to_contain_text(host.node)


def test_a_page_that_is_opened_now_shows_the_minutes_before(
    tmp_path: Path, opening: Callable[..., Page], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked for has no part in it: all samples are of the time in which nobody looked.
    monkeypatch.setattr(monitoring, "EVERY_S", 0.2)
    monkeypatch.setattr(monitoring, "FRESH_S", 3_600.0)
    root = LlmAgent(name="root", model=PatternModel([], default="hi"))
    with Deploy(engine, tmp_path)(root, app_name="before") as rt, serving(app_for(rt)) as url:
        page = opening(url)
        page.goto(f"{url}/ui/icon.svg")
        sampled = f"{url}/v1/apps/before/statistics/recent"
        run_turn(rt, "hi")
        until(lambda: len(turns_of(sampled)) > 2)
        for _ in range(TURNS):
            run_turn(rt, "hi")
        until(lambda: turns_of(sampled)[-1] == TURNS + 1)
        page.goto(f"{url}/ui/?app=before&view=figures")
        told = chart(page, "turns a second").get_attribute("aria-label")
        assert told is not None
        assert float(told.split()[5]) > 1
        drawn = chart(page, "turns a second").locator("polyline").get_attribute("points")
        assert drawn is not None
        assert len(drawn.split()) > 2
        # Another page shows the same.
        other = opening(url, "app=before&view=figures")
        expect(chart(other, "turns a second")).to_have_attribute("aria-label", re.compile(re.escape(told.split()[5])))


def turns_of(url: str) -> list[int]:
    """How many turns there were, by each sample."""
    return [sample["counts"]["turns"] for sample in httpx2.get(url).json()["samples"]]


def test_each_shard_has_a_chart(tmp_path: Path, opening: Callable[..., Page], engine: str, server: str) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="hi"))
    with ShardedDeploy(engine, tmp_path, server)(root, app_name="sharded") as rt, serving(app_for(rt)) as url:
        page = opening(url, "app=sharded&view=figures")
        shards = [each.actor for each in rt.statistics().session.parts]
        assert len(shards) == SHARDS
        for shard in shards:
            expect(chart(page, f"events a second, {shard}")).to_be_visible()
        for number in range(20):
            run_turn(rt, "hi", f"s{number}")
        for shard in shards:
            expect(chart(page, f"events a second, {shard}")).not_to_have_attribute("aria-label", re.compile(" 1.00 at most"))
        expect(page.get_by_role("region", name="Session actors").get_by_role("columnheader")).to_have_count(SHARDS + 1)
