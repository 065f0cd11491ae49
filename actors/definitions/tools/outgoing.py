"""What user code sends to other agents: messages, and the starts of background runs."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from actors.errors import RequestError
from actors.interfaces.access import BackgroundAccess, Inbox, Reach, Start
from actors.messages.background import DEFAULT_BACKGROUND, Background, BackgroundRun
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.llm.drafts import own_content
from actors.messages.session import digest


class Sender(Protocol):
    """Whose code sends."""

    agent_name: str
    invocation_id: str
    run_config: RunConfig

    @property
    def reach(self) -> Reach:
        """Gives what starts background runs."""
        ...


class Outgoing:
    """What one call of a tool, or one run of a custom agent, sends.

    It is numbered in its order, so that what is sent again after a loss is known.

    Args:
        sender: whose code it is.
        inbox: of its run; None outside of one.
        place: tells the call or the run from others of the turn.
    """

    def __init__(self, sender: Sender, inbox: Inbox | None, place: str) -> None:
        self._sender = sender
        self._inbox = inbox
        self._place = place
        self._counts: Counter[tuple[str, str]] = Counter()

    async def start(self, agent: str, message: Any, background: Background | None, key: str) -> BackgroundRun:
        """Start a background run: see ToolContext.start."""
        sender = self._sender
        start = Start(
            id=self._next_id("start", agent, key),
            agent=agent,
            started_by=sender.agent_name,
            content=_content(message),
            options=background or DEFAULT_BACKGROUND,
            invocation_id=sender.invocation_id,
            config=sender.run_config,
        )
        return await self._runs().start(start)

    async def steer_run(self, run: str, message: Any) -> BackgroundRun:
        """Send a message to a background run: see ToolContext.steer_run."""
        return await self._runs().steer(run, _content(message), f"steer-{self._next_id('steer', run, '')}")

    async def cancel_run(self, run: str) -> BackgroundRun:
        """Have a background run cancelled: see ToolContext.cancel_run."""
        return await self._runs().cancel(run)

    def _runs(self) -> BackgroundAccess:
        runs: BackgroundAccess | None = self._sender.reach(BackgroundAccess)  # type: ignore[type-abstract]
        if runs is None:
            raise RequestError("there are no background runs outside of a run")
        return runs

    async def send(self, agent: str, message: Any) -> None:
        """Send a message: see ToolContext.send."""
        if self._inbox is None:
            raise RequestError("no message can be sent outside of a run")
        await self._inbox.send(agent, _content(message), f"sent-{self._next_id('send', agent, '')}")

    def _next_id(self, what: str, agent: str, key: str) -> str:
        self._counts[what, f"{agent} {key}"] += 1
        sender = self._sender
        parts = (sender.invocation_id, sender.agent_name, self._place, what, agent, key, self._counts[what, f"{agent} {key}"])
        return digest(" ".join(map(str, parts)))


def _content(message: Any) -> Content:
    return Content.of_text(message) if isinstance(message, str) else own_content(message)
