"""Messages of user code to and from other agents, and the starts of background runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from actors.errors import RequestError
from actors.interfaces.access import BackgroundAccess, Inbox, Reach, Start
from actors.messages.config import DEFAULT_BACKGROUND, Background, RunConfig
from actors.messages.content import Content, Received
from actors.messages.drafts import own_content
from actors.messages.session import digest
from actors.messages.turn_info import BackgroundRun


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
        self.sender = sender
        self.inbox = inbox
        self._place = place
        self._counts: Counter[tuple[str, str]] = Counter()

    def own_inbox(self) -> Inbox:
        """The inbox of the run. Raises RequestError outside of one."""
        if self.inbox is None:
            raise RequestError("no message can come or be sent outside of a run")
        return self.inbox

    def runs(self) -> BackgroundAccess:
        """The background runs of the session. Raises RequestError outside of a run."""
        runs: BackgroundAccess | None = self.sender.reach(BackgroundAccess)  # type: ignore[type-abstract]
        if runs is None:
            raise RequestError("there are no background runs outside of a run")
        return runs

    def next_id(self, what: str, to: str, key: str = "") -> str:
        """The id of what is sent next: the same when the code is run again."""
        self._counts[what, f"{to} {key}"] += 1
        sender = self.sender
        parts = (sender.invocation_id, sender.agent_name, self._place, what, to, key, self._counts[what, f"{to} {key}"])
        return digest(" ".join(map(str, parts)))


class MessageContext(Protocol):
    """What tools and custom agents read and send while they run."""

    _outgoing: Outgoing

    async def steering(self) -> Sequence[Received]:
        """Read the messages that wait for this agent, the oldest first.

        They are those that the user has sent with `on_concurrent_turn="steer"` and that no agent has read, and those that other
        agents have sent to it. They are appended to the log now: models see them as well, behind the result of a tool.

        Raises:
            FencedError: the turn was taken over or has ended.
            StoreError: they could not be read, and wait.
        """
        return await self._outgoing.inbox.read() if self._outgoing.inbox is not None else ()

    async def next_message(self) -> Received:
        """Wait for such a message, and read it. Raises as `steering` does, and RequestError outside of a run."""
        return await self._outgoing.own_inbox().next_message()

    async def send(self, agent: str, message: Any) -> None:
        """Send another agent of the tree a message.

        It waits in the store until that agent reads it: with `next_message`, or before its next model call. Messages of one agent
        to another come in their order, each once, also when processes are lost; those that code sends again when it begins again
        are no others. One that is not read while the turn runs begins a turn of that agent, or, where the agent is run by
        another, waits until it runs again.

        Args:
            agent: the name of an agent in the tree.
            message: a text or a Content.

        Raises:
            UnknownAgentError: there is no such agent.
            OverloadedError: 1,000 messages wait for it.
            RequestError: there is no run from which it could be sent.
            FencedError: the turn was taken over or has ended.
            StoreError: it could not be stored.
        """
        outgoing = self._outgoing
        await outgoing.own_inbox().send(agent, _content(message), f"sent-{outgoing.next_id('send', agent)}")

    async def start(self, agent: str, message: Any, *, background: Background | None = None, key: str = "") -> BackgroundRun:
        """Start an agent in the background: it works on in a turn and a session of its own, and this agent hears of its end.

        Called again after a loss it returns the run that it has started before: starts are counted in their order.

        Args:
            agent: the name of an agent in the tree, or that is a tool of one.
            message: what it is asked: a text or a Content.
            background: how it runs.
            key: tells this start from others, where their order may differ when the code is run again.

        Raises:
            UnknownAgentError: there is no such agent.
            TooManyRunsError: as many are under way as may.
            RequestError: there is no run in which it could be started.
            FencedError: the turn has ended.
            StoreError: it could not be stored.
        """
        sender = self._outgoing.sender
        start = Start(
            id=self._outgoing.next_id("start", agent, key),
            agent=agent,
            started_by=sender.agent_name,
            content=_content(message),
            options=background or DEFAULT_BACKGROUND,
            invocation_id=sender.invocation_id,
            config=sender.run_config,
        )
        return await self._outgoing.runs().start(start)

    async def steer_run(self, run: str, message: Any) -> BackgroundRun:
        """Send a message to the agent of a background run, which reads it before its next model call.

        Args:
            run: the id of a run that was started in this session.
            message: a text or a Content.

        Raises:
            RunNotFoundError: it is not there.
            RequestError: it has ended, or there is no run from which it could be sent.
            StoreError: it could not be stored.
        """
        return await self._outgoing.runs().steer(run, _content(message), f"steer-{self._outgoing.next_id('steer', run)}")

    async def cancel_run(self, run: str) -> BackgroundRun:
        """Have a background run cancelled, and those that it has started. This agent hears of its end.

        Raises RunNotFoundError, RequestError, StoreError.
        """
        return await self._outgoing.runs().cancel(run)


def _content(message: Any) -> Content:
    return Content.of_text(message) if isinstance(message, str) else own_content(message)
