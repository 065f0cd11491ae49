"""A program: nodes come, drain, are preempted and are lost at random, while turns and maps run all the time.

Run by test_breathing_cluster.py in a process of its own, since it makes a cluster of its own. Arguments: a folder, the URL
of the session store, how many seconds, turns a second, inputs of each map, and a seed. Two apps share the cluster, the turns and
the nodes: `stays` is detached and has standbys, `goes` is neither. The head has no CPUs and is never touched.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from actors import CallbackContext, LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.engine_client import Portal
from runtime.settings import Settings
from tests.support.machine.load import slowdown
from tests.support.runtimes import Deploy

APPS = {
    "stays": Settings(standby_runners=True, standby_sessions=True, log_to_driver=False),
    "goes": Settings(log_to_driver=False),
}
NICENESS = "RAY_worker_niceness"
"""Environment variable: how far processes of agents give way to others."""

CHECKS = "RAY_health_check_period_ms"
"""Environment variable: how often Ray looks whether a node lives. It counts as lost when five looks have found nothing."""

EXPERTS = 4
LEAST, MOST = 2, 4
"""Nodes beside the head."""

NOTICE_S = 15
"""From the notice that a node is preempted until its end. AWS gives 120 s, Google's cloud 30 s."""

LASTS_S = 20.0
"""How long after something has happened to a node a pause is still put down to it."""

SETTLES_S = (4.0, 20.0)
"""Time between two happenings."""

ENDS_S = 120.0
"""How long turns may take to end when nothing more happens to nodes."""

CALL_S, TOOL_S, ASIDE_S = 0.3, 0.2, 1.5
"""What a model's call, a call of the tool and an input of a map take."""

LOOK_S = 2.0
"""How often it is looked how busy the machine is."""

IDLE, PREEMPTED = (
    autoscaler_pb2.DrainNodeReason.Value(f"DRAIN_NODE_REASON_{name}")  # type: ignore[attr-defined]
    for name in ("IDLE_TERMINATION", "PREEMPTION")
)


async def think(context: CallbackContext) -> None:
    """Take as long as a model."""
    await asyncio.sleep(CALL_S)


async def think_long(context: CallbackContext) -> None:
    """Take as long as a model that has much to say."""
    await asyncio.sleep(ASIDE_S)


@tool
async def look_up() -> str:
    """Look something up."""
    await asyncio.sleep(TOOL_S)
    return "found"


def tree() -> LlmAgent:
    """A desk that transfers each session to one of several experts, which keeps it; inputs of maps go to one of their own."""
    experts = [
        LlmAgent(
            name=f"expert_{number}",
            model=PatternModel([("tool:", f"answered by expert_{number}")], default={"call": "look_up"}),
            tools=[look_up],
            before_agent_callback=think,
        )
        for number in range(EXPERTS)
    ]
    clerk = LlmAgent(name="clerk", model=PatternModel([], default="answered by clerk"), before_agent_callback=think_long)
    ways = PatternModel([(f"to {each.name}\\b", {"transfer": each.name}) for each in (*experts, clerk)])
    return LlmAgent(name="desk", model=ways, sub_agents=[*experts, clerk])


class Happening(msgspec.Struct):
    """What is done to a node.

    Attributes:
        kind: "drained", "preempted", "stopped", "lost" or "came".
        until_s: when its consequences have to be over; far away while it goes on.
    """

    kind: str
    from_s: float
    until_s: float = float("inf")


GRAVEST = ("lost", "stopped", "preempted", "drained", "came", "calm")
"""A pause while several things happen is put down to the gravest."""


class Machine:
    """How busy the machine is with other work: with many nodes on few cores, and with tests beside these, it is."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            found = slowdown()
            self._seen.append((time.monotonic(), found))

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()

    def slowdown(self, from_s: float, until_s: float) -> float:
        """How many times longer than alone on a core a piece of work took on average, between these times and a look around."""
        found = [each for at_s, each in self._seen if from_s - LOOK_S <= at_s <= until_s + LOOK_S]
        return sum(found) / len(found) if found else 1.0


class Pause(NamedTuple):
    """A time without a sign of a turn."""

    app: str
    what: str
    from_s: float
    until_s: float

    @property
    def took_s(self) -> float:
        """How long it was."""
        return self.until_s - self.from_s


class Pauses:
    """The longest pauses, by app and by what happened meanwhile."""

    def __init__(self) -> None:
        self.happened: list[Happening] = []
        self.found: list[Pause] = []

    @contextmanager
    def happening(self, kind: str) -> Iterator[None]:
        """Something happens to a node inside the block."""
        happens = Happening(kind, time.monotonic())
        self.happened.append(happens)
        try:
            yield
        finally:
            happens.until_s = time.monotonic() + LASTS_S

    def longest(self, app: str) -> Mapping[str, Pause]:
        """The longest pause of an app by kind, the gravest first."""
        found: dict[str, Pause] = {}
        for pause in (each for each in self.found if each.app == app):
            met = {each.kind for each in self.happened if each.from_s < pause.until_s and pause.from_s < each.until_s}
            kind = next((each for each in GRAVEST if each in met), "calm")
            found[kind] = max(found.get(kind, pause), pause, key=lambda each: each.took_s)
        return {kind: found[kind] for kind in GRAVEST if kind in found}


class Answered(NamedTuple):
    """A turn whose answer came."""

    session: str
    invocation_id: str


class Load:
    """Turns and maps of one app, on a thread of their own, until `stop`.

    Attributes:
        answered: the turns whose answers came.
        failed: what was wrong.
    """

    def __init__(self, rt: Runtime, app: str, rate: float, inputs: int, seconds: float, pauses: Pauses) -> None:
        self._rt, self._app, self._rate, self._inputs, self._pauses = rt, app, rate, inputs, pauses
        self._at_once = max(1, round(inputs * (ASIDE_S + 0.3) / seconds))
        self._is_over = False
        self._free: deque[str] = deque()
        self._turns: Counter[str] = Counter()
        self.answered: list[Answered] = []
        self.failed: list[str] = []
        self.mapped = 0
        self._portal = Portal(f"load of {app}")
        self._ended = threading.Event()
        self._all = self._portal.begin_call(self._run(), lambda call: self._ended.set())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._map())
            begun_s, number = time.monotonic(), 0
            while not self._is_over:
                group.create_task(self._turn())
                number += 1
                await asyncio.sleep(begun_s + number / self._rate - time.monotonic())

    async def _turn(self) -> None:
        session = self._free.popleft() if len(self._free) > 2 * EXPERTS else f"s{len(self._turns)}"
        expert = f"expert_{int(session[1:]) % EXPERTS}"
        number = self._turns[session] = self._turns[session] + 1
        invocation_id = f"{session}-{number}"
        seen_s = time.monotonic()
        texts: list[str] = []
        try:
            turn = self._rt.run(user_id="ada", session_id=session, message=f"to {expert}", invocation_id=invocation_id)
            async for event in turn:
                now_s = time.monotonic()
                self._pauses.found.append(Pause(self._app, f"{invocation_id}, before {event.author}", seen_s, now_s))
                seen_s = now_s
                texts.append(event.text)
            texts.append((await turn).text)
        except Exception as error:
            self.failed.append(f"{invocation_id}: {type(error).__name__}: {error}")
            return
        self._pauses.found.append(Pause(self._app, f"{invocation_id}, before its end", seen_s, time.monotonic()))
        if texts[-1] != f"answered by {expert}" or texts.count(texts[-1]) != 2:
            self.failed.append(f"{invocation_id}: {texts}")
        self.answered.append(Answered(session, invocation_id))
        self._free.append(session)

    async def _map(self) -> None:
        number = 0
        while not self._is_over:
            number += 1
            inputs = ({"message": "to clerk", "session_id": f"m{number}-{each}"} for each in range(self._inputs))
            try:
                async for each in self._rt.map(
                    (each for each in inputs if not self._is_over), name=f"map{number}", concurrency=self._at_once, progress=False
                ):
                    if each.error is not None:
                        raise each.error
                    now_s = time.monotonic()
                    began_s = now_s - each.duration_s + ASIDE_S
                    self._pauses.found.append(Pause(self._app, f"{each.invocation_id} of a map", began_s, now_s))
                    if each.text != "answered by clerk":
                        self.failed.append(f"{each.invocation_id}: {each.text}")
                    self.mapped += 1
                    self.answered.append(Answered(each.session_id, each.invocation_id))
            except Exception as error:
                self.failed.append(f"map {number}: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """Begin no more turns, and wait until those that run have ended."""
        self._is_over = True
        if self._ended.wait(ENDS_S):
            self._all.result()
            self._portal.close()
        else:
            began = sum(self._turns.values())
            self.failed.append(f"{began - len(self.answered) + self.mapped} turns stand still")


class Nodes:
    """The nodes beside the head, and what is done to them."""

    def __init__(self, cluster: Cluster, pauses: Pauses, seed: int) -> None:
        self._cluster, self._pauses = cluster, pauses
        self._random = random.Random(seed)
        self._control = GcsClient(address=cluster.address)
        self._made = 0
        self._nodes: list[Any] = []
        self.counts: Counter[str] = Counter()

    def come(self) -> None:
        """A node comes, with an address of its own. On a busy machine it may not start within the time that Ray gives it."""
        self._made += 1
        address = f"127.0.1.{self._made}"
        try:
            self._nodes.append(self._cluster.add_node(num_cpus=2, node_ip_address=address, include_dashboard=False))
        except Exception as error:
            print(f"no node at {address}: {error}", file=sys.stderr)
            self.counts["nodes that did not start"] += 1

    def breathe(self, end_s: float, tell: Callable[[str], None]) -> None:
        """Do one thing after the other."""
        ways = {"lost": self._lose, "stopped": self._stop, "preempted": self._preempt, "drained": self._drain}
        turns: list[str] = []
        while time.monotonic() < end_s:
            # Each kind as often as any other.
            if len(self._nodes) <= LEAST or (len(self._nodes) < MOST and self._random.random() < 0.3):
                kind, act = "came", self.come
            else:
                turns = turns or self._random.sample(sorted(ways), len(ways))
                kind = turns.pop()
                act = ways[kind]
            tell(f"{kind}, of {len(self._nodes)} nodes")
            with self._pauses.happening(kind):
                act()
            self.counts[kind] += 1
            time.sleep(self._random.uniform(*SETTLES_S))

    def _one(self) -> Any:
        return self._nodes.pop(self._random.randrange(len(self._nodes)))

    def _asked_to_drain(self, node: Any, reason: int, within_s: float) -> bool:
        deadline_ms = int((time.time() + within_s) * 1_000)
        accepted, _ = self._control.drain_node(node.node_id, reason, "the cluster breathes", deadline_ms)
        return bool(accepted)

    def _lose(self) -> None:
        """Kill a node's processes, the first of them that of Ray: nothing is said before."""
        node = self._one()
        node.all_processes["raylet"][0].process.send_signal(signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def _stop(self) -> None:
        """End a node in order without a notice before, as `kubectl delete pod` does."""
        self._cluster.remove_node(self._one(), allow_graceful=True)

    def _preempt(self) -> None:
        """Say that a node will be preempted, and take it away when the time is over."""
        node = self._one()
        assert self._asked_to_drain(node, PREEMPTED, NOTICE_S)
        time.sleep(NOTICE_S)
        self._end(node, "preempted")

    def _drain(self) -> None:
        """Take a node away as an autoscaler does that finds it idle; where Ray says that none is, with a notice of preemption."""
        for node in self._random.sample(self._nodes, len(self._nodes)):
            if self._asked_to_drain(node, IDLE, NOTICE_S):
                self._nodes.remove(node)
                time.sleep(NOTICE_S)
                self._end(node, "idle")
                return
        self.counts["refused, since no node is idle"] += 1
        self._preempt()

    def _end(self, node: Any, reason: str) -> None:
        has_left = not node.any_processes_alive() or node.all_processes["raylet"][0].process.poll() is not None
        self.counts[f"{reason}, had left by itself: {has_left}"] += 1
        self._cluster.remove_node(node, allow_graceful=self._random.random() < 0.5)


def flaws(url: str, app: str, answered: Sequence[Answered]) -> list[str]:
    """What the store lacks of the turns that were answered, and what is wrong with its logs."""
    with psycopg.connect(url) as database:
        turns: dict[str, str] = dict(
            database.execute(
                "select session || %s || invocation_id, status from raygrove_turns join raygrove_sessions using (sid)"
                " where app = %s",
                (" ", app),
            ).fetchall()
        )
        gaps = database.execute(
            "select session, count(*), min(seq), max(seq) from raygrove_events join raygrove_sessions using (sid)"
            " where app = %s group by session having count(*) <> max(seq) or min(seq) <> 1",
            (app,),
        ).fetchall()
    found = [f"{name} is {status}" for name, status in turns.items() if status != "finished"]
    found += [f"{each} is missing" for each in answered if f"{each.session} {each.invocation_id}" not in turns]
    return found + [f"{session} has {count} events from {first} to {last}" for session, count, first, last in gaps]


def main(folder: Path, url: str, seconds: int, rate: float, inputs: int, seed: int) -> None:
    began_s = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began_s:6.1f} s: {line}", file=sys.stderr, flush=True)

    pauses, machine = Pauses(), Machine()
    # The nodes share their cores with each other, so that work of other programs would come before that of agents.
    os.environ[NICENESS] = "0"
    # As docs/breathing.md advises.
    os.environ[CHECKS] = "1000"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "node_ip_address": "127.0.1.0"})
    nodes = Nodes(cluster, pauses, seed)
    loads: dict[str, Load] = {}
    with ExitStack() as stack:
        stack.callback(cluster.shutdown)
        for _ in range(LEAST + 1):
            nodes.come()
        for app, settings in APPS.items():
            options = {"address": cluster.address, "session_store": url, "settings": settings, "detached": app == "stays"}
            rt = stack.enter_context(Deploy("ray", folder)(tree(), app_name=app, **options))
            if app == "stays":
                stack.callback(rt.shutdown)
            for number in range(EXPERTS):
                rt.run(user_id="ada", session_id="first", message=f"to expert_{number}").result()
            loads[app] = Load(rt, app, rate / len(APPS), inputs, seconds, pauses)
        tell("both apps run")
        nodes.breathe(time.monotonic() + seconds, tell)
        for app, load in loads.items():
            load.stop()
            wrong = flaws(url, app, load.answered)
            print("RESULT", json.dumps([app, len(load.failed), len(wrong)]))
            tell(f"{app}: {len(load.answered)} turns answered, {load.mapped} of them of maps")
            for each in [*load.failed[:5], *wrong[:5]]:
                tell(f"{app}: {each[:600]}")
    machine.stop()
    tell(f"{dict(nodes.counts)}")
    for app in APPS:
        for kind, pause in pauses.longest(app).items():
            busy = machine.slowdown(pause.from_s, pause.until_s)
            print("RESULT", json.dumps([app, kind, pause.took_s, busy]))
            at_s = pause.from_s - began_s
            tell(
                f"{app}: longest pause while {kind}: {pause.took_s:.1f} s from {at_s:.1f} s on, machine {busy:.1f} ({pause.what})"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
