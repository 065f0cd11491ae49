"""Plays a talk, and looks whether agents at work were shown what was said to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from actors import RunConfig
from actors.layers.schedules.messages import WatchSchedules
from actors.messages import protocol as p
from tests.model.history import Moment
from tests.model.story import read_by
from tests.simulation.agents import build
from tests.simulation.cluster import Sent
from tests.simulation.drivers import APP, Driver, unless_lost
from tests.simulation.faults import are_at_store
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.player import SETTLE_S
from tests.simulation.programs import Wish, grant, judge, until_known
from tests.simulation.steering.talk import Said, Talk
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import World, deployment_of
from tests.support.any_message import decode_message

NOTIFY_S = 1.0
"""An agent that is longer to reach is not waited for."""


class Talked(Left):
    """What a talk leaves besides.

    Attributes:
        messages, moments: see `Result`.
        read: how many messages agents have read at work.
        due: how many model calls had to be shown one.
    """

    messages: dict[str, int] = {}
    moments: dict[str, int] = {}
    read: int = 0
    due: int = 0


class Steered(World):
    """A world that knows when messages to agents at work were accepted, and when agents were asked to work.

    Attributes:
        accepted: when the Runner has said that a message was given to a turn, and has notified its agents, by the message's text.
        invoked: when each run of an agent was asked for: its turn and agent.
    """

    accepted: dict[str, tuple[Moment, str]]
    invoked: list[tuple[Moment, p.TurnRef, str]]

    def start(self) -> None:
        self.accepted, self.invoked = {}, []
        self._asked_s: dict[int, float] = {}
        super().start()

    def _on_sent(self, sent: Sent) -> float:
        if sent.kind == "Invoke":
            message = decode_message(sent.raw)
            assert isinstance(message, p.Invoke)
            self.invoked.append((self.loop.history.now(), message.turn, message.agent))
        elif sent.kind == "StartTurn":
            self._asked_s[sent.nth] = self.loop.time()
        return super()._on_sent(sent)

    def _on_handled(self, sent: Sent, raw: bytes) -> bool:
        if sent.kind == "StartTurn" and self.loop.time() - self._asked_s[sent.nth] < NOTIFY_S:
            message, reply = decode_message(sent.raw), decode_message(raw)
            assert isinstance(message, p.StartTurn)
            if isinstance(reply, p.TurnStarted) and reply.message:
                self.accepted.setdefault(message.content.text, (self.loop.history.now(), reply.invocation_id))
        return super()._on_handled(sent, raw)


def play(given: Talk, seed: int) -> Talked:
    left = Talked()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = Steered(loop, deployment_of(build(given.root)), given.plan, calls, seed, given.groups)
        left.trace = world.trace
        world.start()
        await _watch(world)
        programs = {said.program: world.driver() for said in given.said if said.program}
        await asyncio.gather(*(_say(world, said, programs) for said in given.said))
        await asyncio.sleep(SETTLE_S)
        await until_known(world, Wish(turn="last"), "do last")
        await asyncio.sleep(SETTLE_S)
        counts = (await world.driver().rt._client.engine.runner.statistics()).counts
        left.problems += [f"the Runner counts turns that are {name}" for name in ("running", "waiting") if counts[name]]
        left.problems += [f"message {row.name!r} waits" for row in world.disk.store.schedules(APP, "ada", limit=100)]
        judge(world, left)
        left.problems += _not_shown(world, given, left)
        left.messages, left.moments = dict(world.wires.counts), dict(world.faults.moments)

    return in_virtual_time(left, seed, meet)


async def _watch(world: World) -> None:
    """Have schedules begin turns. A driver that is lost is replaced."""
    while True:
        driver = world.driver()
        await unless_lost(driver, driver.rt._client.engine.runner.ask(WatchSchedules()))
        if not driver.is_dead:
            return


async def _say(world: World, said: Said, programs: dict[int, Driver]) -> None:
    config = RunConfig(max_transfers=20, on_concurrent_turn="steer" if said.steers else "enqueue")
    await grant(world, said, said.text, programs.get(said.program), config=config)


def _not_shown(world: Steered, given: Talk, left: Talked) -> Iterator[str]:
    """2 Concurrent turns: each agent that runs in a turn, or begins in it, is shown a message before its next model call.

    Agents that are tools, and nodes of graphs, are not. An agent that could not read since the store failed reads later.
    """
    history, root = world.loop.history, given.root
    sessions = {said.text: said.session for said in given.said}
    log = [event for events in history.logs for event in events]
    left.read = sum(bool(read_by(event)) for event in log)
    tools = {below.name for node in root.all() for expert in node.experts for below in expert.all()}
    nodes = {below.name for node in root.all() if node.kind == "graph" for below in node.all()}
    for call in history.models:
        texts = [content.text for content in call.contents]
        yield from (f"{call.agent} was shown {each!r} twice" for each in world.accepted if texts.count(each) > 1)
        session = next((sessions[text] for text in texts if text in sessions), "")
        runs = [
            (at, turn.invocation_id)
            for at, turn, agent in world.invoked
            if agent == call.agent and at < call.at and turn.key.session == session
        ]
        if call.agent in (tools | nodes) or not runs or are_at_store(world.faults.fired):
            continue
        begun, turn = runs[-1]
        said = (history.known[event.id] for event in log if (event.author, event.invocation_id) == (call.agent, turn))
        step = max([begun, *(at for at in said if at < call.at)])
        due = [text for text, (at, joined) in world.accepted.items() if joined == turn and at < step]
        left.due += len(due)
        yield from (f"{call.agent} called its model at {call.at[0]:.3f} without {each!r}" for each in due if each not in texts)
