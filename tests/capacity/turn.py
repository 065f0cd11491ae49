"""A turn's way through the processes of a cluster, as docs/architecture.md tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tests.capacity.cluster import Deployed, Hosting
from tests.capacity.queues import Script, SimulatedTime, Step, play

T = TypeVar("T")


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn does.

    Attributes:
        model_s: how long the model takes for each call.
        call_ms: CPU of each call in the agent's process, by the SDK of its service; 0 for a model that is asked without one.
        tool_calls: one after the other; each makes two further events and one more call of the model.
        tool_s: how long each takes.
    """

    model_s: float = 0.0
    call_ms: float = 0.0
    tool_calls: int = 0
    tool_s: float = 0.0

    @property
    def waits_s(self) -> float:
        """The time that a turn takes with nothing but its model and its tools."""
        return self.model_s * (self.tool_calls + 1) + self.tool_s * self.tool_calls

    @property
    def calls_ms(self) -> float:
        """CPU of all calls of models."""
        return self.call_ms * (self.tool_calls + 1)

    @property
    def further_events(self) -> int:
        """Events beside the user's and the answer."""
        return 2 * self.tool_calls


class TurnPlayer:
    """Plays turns."""

    def __init__(self, time: SimulatedTime, deployed: Deployed, conversation: Conversation) -> None:
        self._time = time
        self._deployed = deployed
        self._conversation = conversation

    def turn(self, session: int, user: int) -> Script:
        """One turn of a session of a user, until the program that asked has the answer."""
        parts = self._deployed
        web, agent = (_of(hostings, session) for hostings in (parts.webs, parts.agents))
        runner, shard = (_of(hostings, session) for hostings in (parts.runners, parts.sessions))
        place, log = _of(parts.gates, session).place(user, session), _of(parts.logs, session)
        yield self._take(web, "ask")
        yield parts.hop(web, runner)
        yield place.enter
        yield self._take(runner, "ask")
        yield parts.hop(runner, shard)
        yield self._take(shard, "open")
        play(self._stored(log.write, shard, runner, web))
        yield parts.hop(shard, runner)
        yield self._take(runner, "opened")
        is_kept = place.is_kept()
        if not is_kept:
            place.leave()
        yield parts.hop(runner, agent)
        yield self._take(agent, "run")
        if is_kept:
            play(self._begun(agent, runner), place.leave)
        yield from self._further_events(web, agent, shard, log.write)
        yield from self._call_sent(agent)
        if self._conversation.model_s:
            yield self._time.pause(self._conversation.model_s)
            # The same event as above, in a pass of its own.
            yield agent.process.take(0.0)
        yield parts.hop(agent, shard)
        yield self._take(shard, "append")
        yield log.write
        yield self._take(shard, "appended")
        play(self._ended(shard, agent, runner))
        yield parts.hop(shard, web)
        yield self._take(web, "answer")

    def _stored(self, write: Step, shard: Hosting, runner: Hosting, web: Hosting) -> Script:
        """The user's message is stored while the agent begins. The program does not wait for the reply."""
        parts = self._deployed
        yield write
        yield self._take(shard, "stored")
        yield parts.hop(shard, runner)
        yield self._take(runner, "stored")
        yield parts.hop(runner, web)
        yield self._take(web, "stored")

    def _begun(self, agent: Hosting, runner: Hosting) -> Script:
        """The agent tells the Runner that its run has begun. What a turn costs where many come at once has that in it."""
        yield self._deployed.hop(agent, runner)
        yield runner.process.take(0.0)

    def _ended(self, shard: Hosting, agent: Hosting, runner: Hosting) -> Script:
        """The agent is told that its event is stored, and tells the Runner how the run ended."""
        parts = self._deployed
        yield parts.hop(shard, agent)
        yield self._take(agent, "appended")
        yield parts.hop(agent, runner)
        yield self._take(runner, "ended")

    def _further_events(self, web: Hosting, agent: Hosting, shard: Hosting, write: Step) -> Script:
        """Calls of tools and their responses. The agent goes on when each is stored."""
        parts = self._deployed
        conversation = self._conversation
        for number in range(conversation.further_events):
            is_of_model = number % 2 == 0
            if is_of_model:
                yield from self._call_sent(agent)
            wait_s = conversation.model_s if is_of_model else conversation.tool_s
            if wait_s:
                yield self._time.pause(wait_s)
            yield agent.process.take(agent.event_s)
            yield parts.hop(agent, shard)
            yield shard.process.take(shard.event_s)
            yield write
            yield shard.process.take(shard.event_s)
            play(iter((parts.hop(shard, web), web.process.take(web.event_s))))
            yield parts.hop(shard, agent)
            yield agent.process.take(agent.event_s)

    def _call_sent(self, agent: Hosting) -> Script:
        """An SDK has a request made and sent. What it takes to read the answer is in the same pass here."""
        if self._conversation.call_ms:
            yield agent.process.take(self._conversation.call_ms / 1_000)

    def _take(self, hosting: Hosting, message: str) -> Step:
        """A part takes a message of a plain turn. See SHARES."""
        return hosting.process.take(hosting.messages_s[message])


def _of(those: Sequence[T], session: int) -> T:
    """The one of a part that serves a session."""
    return those[session % len(those)]
