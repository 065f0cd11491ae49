"""Takes the pictures of the inspector that the documentation shows: `python -m tests.browser.screenshots`. They need Chromium."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path

import msgspec
from playwright.sync_api import Page, sync_playwright

from actors import LlmAgent, LlmRequest, LlmResponse, ParallelAgent, SequentialAgent, ToolContext, tool
from actors.messages.event import Usage
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.browser.apps import two_cases
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.support.agents.page_agents import large
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.web_server import serving

DOCS = Path(__file__).parents[2] / "docs"
SIZE = {"width": 1180, "height": 640}
BUSY_S = 90.0
"""The server looks at its deployments every five seconds."""


class UnhurriedModel:
    """Answers by patterns after a while, and counts tokens as services do.

    Args:
        patterns, default: see PatternModel.
        takes_s: how long an answer takes.
    """

    def __init__(self, patterns: list[tuple[str, object]], default: str = "Done.", takes_s: float = 0.3) -> None:
        self._model = PatternModel(patterns, default=default)  # type: ignore[arg-type]
        self._takes_s = takes_s

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        async for response in self._model.generate(request, stream=stream):
            await asyncio.sleep(self._takes_s)
            asked = sum(len(content.text) for content in request.contents) + 400
            usage = Usage(prompt_token_count=asked, candidates_token_count=int(60 * self._takes_s) + 9)
            yield msgspec.structs.replace(response, usage=usage)


@tool
async def find_order(number: int, tool_context: ToolContext) -> dict[str, object]:
    """Find an order."""
    await asyncio.sleep(0.12)
    tool_context.state["order"] = number
    return {"number": number, "paid": "80 euros", "sent": False}


@tool(require_confirmation=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"{amount} euros are on their way"


def desk() -> LlmAgent:
    """A support desk, whose billing looks into an order with three agents at once."""
    billing = LlmAgent(
        name="billing",
        description="Orders and money.",
        tools=[find_order, refund],
        model=UnhurriedModel(
            [
                ("tool:find_order", {"call": "refund", "args": {"amount": 80}}),
                ("tool:refund", "Done: 80 euros are on their way to you."),
                ("refund", {"call": "find_order", "args": {"number": 42}}),
            ]
        ),
    )
    checks = [("policy", 0.35), ("fraud", 0.5), ("stock", 0.2)]
    looks = [
        LlmAgent(name=name, model=UnhurriedModel([], f"{name}: nothing speaks against it.", takes)) for name, takes in checks
    ]
    review = SequentialAgent(
        name="review",
        description="Looks into a case.",
        sub_agents=[
            ParallelAgent(name="checks", sub_agents=looks),
            LlmAgent(name="verdict", model=UnhurriedModel([], "The case is fine: all three checks agree.", 0.25)),
        ],
    )
    model = UnhurriedModel(
        [("refund", {"transfer": "billing"}), ("review", {"transfer": "review"})], "Hello! How can I help?", 0.15
    )
    return LlmAgent(name="concierge", description="Greets.", model=model, sub_agents=[billing, review])


def main() -> None:
    if CHROMIUM is None:
        sys.exit("there is no Chromium on this machine")
    with ExitStack() as open_things:
        deploy = Deploy("local", Path(open_things.enter_context(tempfile.TemporaryDirectory())))
        support = open_things.enter_context(deploy(desk(), app_name="support"))
        tree = open_things.enter_context(deploy(large(100, 99), app_name="large"))
        for user, session, message in [
            ("grace", "order-17", "Hello"),
            ("linus", "web-3", "Hello"),
            ("ada", "case-7", "Please review my case."),
            ("ada", "order-42", "I would like a refund for order 42."),
        ]:
            run_turn(support, message, session, user)
        run_turn(tree, "far", "s1", "ada")
        # Before the browser's client, whose event loop would be this thread's.
        nightly = open_things.enter_context(deploy(desk(), app_name="nightly"))
        batch = batches(nightly, Path(open_things.enter_context(tempfile.TemporaryDirectory())))
        url = open_things.enter_context(serving(app_for(support, tree, nightly)))
        chromium = open_things.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = chromium.new_page(viewport=SIZE)  # type: ignore[arg-type]
        conversation = f"{url}/ui/?app=support&user=ada&session=order-42&tab=state"
        picture(page, conversation, "conversation")
        picture(page, f"{url}/ui/?app=large&view=tree&agent=agent_7", "agents")
        picture(page, f"{url}/ui/?app=nightly&view=batches&batch={batch}&item=1", "batches")
        page.emulate_media(color_scheme="dark")
        where = f"{url}/ui/?app=support&user=ada&session=case-7&pane=timeline&tab=agent&agent=review"
        picture(page, where, "timeline")
        with busy(nightly):
            picture(page, f"{url}/ui/?app=nightly&view=figures", "figures", waits_s=BUSY_S)
        page.set_viewport_size({"width": 400, "height": 720})
        picture(page, conversation, "narrow")
        chromium.close()


@contextmanager
def busy(rt: Runtime) -> Iterator[None]:
    """Conversations come and go meanwhile, as on a working day."""
    is_over, number = threading.Event(), count()

    def work() -> None:
        for many in cycle([2, 5, 9, 14, 9, 4, 1]):
            if is_over.is_set():
                return
            list(rt.map([{"message": "Please review my case."} for _ in range(many)], name=f"w-{next(number)}", user_id="day"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def batches(rt: Runtime, folder: Path) -> str:
    """Run a map, of which an input fails, and an evaluation. Returns the id of the latter."""
    list(rt.map([{"message": f"Hello number {number}"} for number in range(40)], name="greetings-june", user_id="batch"))
    tickets = [{"message": "Hello"}, {"mesage": "a wrong field"}]
    list(rt.map(tickets, name="tickets", user_id="batch"))
    two_cases(rt, folder / "greetings.evalset.json", right="Hello! How can I help?", wrong="Good evening, Ada.")
    return rt.batches.list()[0].id


def picture(page: Page, url: str, name: str, waits_s: float = 1.0) -> None:
    """Take one picture.

    Args:
        waits_s: until what is drawn stands still, or charts have something to show.
    """
    page.goto(url)
    page.locator(".row:visible, .chart, .batch").nth(2).wait_for()
    page.wait_for_timeout(waits_s * 1_000)
    page.screenshot(path=DOCS / f"inspector-{name}.png")


if __name__ == "__main__":
    main()
