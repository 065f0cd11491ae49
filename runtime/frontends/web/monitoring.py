"""What is asked of a server's apps: whether they answer, and their figures, for Prometheus and over the last minutes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from actors.errors import DeploymentNotFoundError, DrainingError, RaygroveError
from actors.messages.event import now_s
from actors.messages.protocol import Statistics
from runtime.driver.runtime import Runtime
from runtime.driver.services.deployment import RuntimeStatistics
from runtime.observability.figures import Figure, counted, of_agents, of_counts, of_models, timed

KEPT_S = 600.0
"""How long a sample is kept."""

EVERY_S = 5.0
"""Samples are taken so often where no page asks."""

FRESH_S = 1.5
"""An answer has a sample that is no older, however many pages ask."""

SHARE = 20
"""Of its time, the part in which a server asks a deployment by itself at most: 1/n. Each agent that lives is asked."""

MOST_SAMPLES = 500
"""Of an app, however the clock goes."""

MOST_SERIES = 50
"""Shards, and models, of which a sample has figures."""


class FigureSample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The figures of a deployment at one time, as far as charts show them.

    Attributes:
        at_s: when, in seconds since 1970.
        counts: by name: turns that are running and waiting, turns, events and activations so far, live agents, processes with
            agents and those that are spare, connections, and the bytes of memory of the processes with agents.
        shards: the events so far of each Session actor, by their names, where several share the sessions.
        models: the calls that run and that wait, by the names of models with limits.
    """

    at_s: float
    counts: Mapping[str, int]
    shards: Mapping[str, int] = {}
    models: Mapping[str, Mapping[str, int]] = {}


class _App:
    """The samples of one app, the newest last, and its figures as of the newest one."""

    def __init__(self) -> None:
        self.samples: deque[FigureSample] = deque(maxlen=MOST_SAMPLES)
        self.newest: RuntimeStatistics | None = None
        self.read_s = float("-inf")
        self.reading = asyncio.Lock()


class RecentFigures:
    """Asks the deployments of a server for their figures from time to time, and keeps those of the last minutes.

    All who look share what it has read: many pages ask the actors no more often than one. It knows of the time in which its
    server runs, also of deployments that are older.

    Args:
        runtimes: by the names of their apps.
    """

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._apps = {name: _App() for name in runtimes}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take samples, unless it does already. Needs an event loop that runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._sample())

    def stop(self) -> None:
        """Take no more samples by itself."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def read(self, app_name: str, after_s: float) -> tuple[Sequence[FigureSample], RuntimeStatistics]:
        """The samples of an app that were taken after some time, the newest last, and its figures now.

        Args:
            after_s: in seconds since 1970.

        Raises:
            RuntimeClosedError, ActorLostError: see Runtime.statistics.
        """
        # Where a server of someone else's runs the application there may be nothing that starts it.
        self.start()
        newest = await self._read(app_name, FRESH_S)
        return [sample for sample in self._apps[app_name].samples if sample.at_s > after_s], newest

    async def _sample(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self._apps:
                group.create_task(self._sample_app(name))

    async def _sample_app(self, app_name: str) -> None:
        pause_s = EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                await self._read(app_name, EVERY_S / 2)
            except RaygroveError:
                # It is stopped, or being upgraded: the charts have a gap.
                self._apps[app_name].newest = None
            pause_s = max(EVERY_S, (SHARE - 1) * (time.monotonic() - began_s))

    async def _read(self, app_name: str, fresh_s: float) -> RuntimeStatistics:
        app = self._apps[app_name]
        async with app.reading:
            if app.newest is None or time.monotonic() - app.read_s > fresh_s:
                figures = await self._runtimes[app_name].aio.statistics()
                at_s, before_s = now_s(), app.read_s
                app.newest, app.read_s = figures, time.monotonic()
                if app.samples:
                    # Pages ask for what came after the newest that they have, also where the clock was set back.
                    at_s = max(at_s, app.samples[-1].at_s + app.read_s - before_s)
                app.samples.append(sample_of(figures, at_s))
                while app.samples[0].at_s < app.samples[-1].at_s - KEPT_S:
                    app.samples.popleft()
            return app.newest


def sample_of(figures: RuntimeStatistics, at_s: float) -> FigureSample:
    """The sample of a deployment's figures: those of them that charts show."""
    session, runner = figures.session, figures.runner
    shards = _parts(session)
    counts = {
        "running": runner.counts.get("running", 0),
        "waiting": runner.counts.get("waiting", 0),
        "turns": runner.counts.get("turns", 0),
        "events": session.counts.get("events", 0),
        "activations": runner.counts.get("activations", 0),
        "agents": len(figures.agents),
        "processes": runner.counts.get("hosts", 0),
        "spares": runner.counts.get("spares", 0),
        "connections": _connections(figures),
        "memoryBytes": _memory_bytes(figures),
    }
    return FigureSample(
        at_s=at_s,
        counts=counts,
        shards={each.actor: each.counts.get("events", 0) for each in shards[:MOST_SERIES]} if len(shards) > 1 else {},
        models={
            name: {which: each.get(which, 0) for which in ("running", "waiting")}
            for name, each in islice(figures.models.items(), MOST_SERIES)
        },
    )


def _parts(figures: Statistics) -> Sequence[Statistics]:
    """Each actor of a kind: one alone, or those that share the work."""
    return figures.parts or (figures,)


def _memory_bytes(figures: RuntimeStatistics) -> int:
    """The memory of processes with agents, each counted once."""
    if figures.processes:
        return sum(each.memory_bytes for each in figures.processes.values())
    # On the local engine all agents are in this process.
    return max((part.memory_bytes for each in figures.agents.values() for part in _parts(each)), default=0)


def _connections(figures: RuntimeStatistics) -> int:
    """The connections of all actors that tell theirs."""
    actors = [*_parts(figures.session), *_parts(figures.runner)]
    told = [each.connections for each in actors] + [each.connections for each in figures.processes.values()]
    return sum(each.made + each.accepted for each in told if each is not None)


READY_S = 2.0
"""How long actors and stores may take to answer."""

AWAY = "the control service of Ray is away"
"""The fault of an app whose turns go on, on a Ray that may be about to end all of its programs."""

DRAINING = "draining"
"""The fault of an app that takes no new turns, because its deployment is about to be stopped."""

AGAIN_S = 0.25
"""How long an answer is given again: requests need no credentials, and each would ask every actor."""


class Readiness:
    """Asks the actors and the session store of every app.

    Args:
        runtimes: by the names of their apps.
    """

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._lock = asyncio.Lock()
        self._asked_s = float("-inf")
        self._faults: dict[str, str] = {}

    async def faults(self) -> dict[str, str]:
        """The apps that do not answer, and why, as of a moment ago."""
        async with self._lock:
            if time.monotonic() - self._asked_s > AGAIN_S:
                found = await asyncio.gather(*(_fault(runtime) for runtime in self._runtimes.values()))
                self._faults = {name: fault for name, fault in zip(self._runtimes, found, strict=True) if fault}
                self._asked_s = time.monotonic()
            return self._faults


async def _fault(runtime: Runtime) -> str:
    try:
        async with asyncio.timeout(READY_S):
            try:
                figures = await _figures(runtime)
            except DeploymentNotFoundError:
                # The first request after a stop tells of it, and the next one joins what has been started since.
                figures = await _figures(runtime)
    except TimeoutError:
        return f"no answer within {READY_S:g} s"
    except DrainingError:
        # It is being upgraded: the next deployment starts just now.
        return DRAINING
    except RaygroveError as error:
        return type(error).__name__
    if figures.control_service_away_s:
        return AWAY
    return DRAINING if figures.runner.counts.get("draining") else ""


async def _figures(runtime: Runtime) -> RuntimeStatistics:
    """Those of the Runner and its agents, once the Session actors and their store have answered, too."""
    figures, _ = await asyncio.gather(runtime.aio.statistics(), runtime.aio.turns.list(limit=1))
    return figures


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(apps: Mapping[str, RuntimeStatistics], requests: Mapping[tuple[str, int], int], streams: int) -> str:
    """The figures of apps.

    Those of agents are sums over the agents that live, since a tree may have thousands: each agent's are in the statistics.

    Args:
        apps: the figures by the names of apps.
        requests: how many the server has answered, by method and path, and by status.
        streams: how many streams are open.
    """
    families: dict[str, list[str]] = {"raygrove_web_streams": [f"raygrove_web_streams {streams}"]}
    families["raygrove_web_requests_total"] = [
        f'raygrove_web_requests_total{{operation="{_escaped(name)}",status="{status}"}} {number}'
        for (name, status), number in sorted(requests.items())
    ]
    for app, figures in apps.items():
        for figure in _exposed(figures):
            name = figure.name + ("_total" if figure.only_grows else "")
            told = _labels({"app": app, **figure.labels})
            families.setdefault(name, []).append(f"{name}{{{told}}} {figure.value}")
    lines = []
    for name, samples in families.items():
        lines += [f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}", *samples]
    for name, samples in _histograms(apps).items():
        lines += [f"# TYPE {name} histogram", *samples]
    return "\n".join(lines) + "\n"


def _histograms(apps: Mapping[str, RuntimeStatistics]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for app, figures in apps.items():
        for each in timed(figures.session.tallies):
            told = _labels({"app": app, **each.labels})
            samples = families.setdefault(each.name, [])
            samples += [f'{each.name}_bucket{{{told},le="{bound}"}} {count}' for bound, count in each.up_to]
            samples += [f"{each.name}_sum{{{told}}} {each.total_s:.9g}", f"{each.name}_count{{{told}}} {each.number}"]
    return families


def _exposed(figures: RuntimeStatistics) -> Iterator[Figure]:
    yield from of_counts("session", figures.session.counts)
    yield from of_counts("runner", figures.runner.counts)
    yield from of_agents(figures.agents.values(), len(figures.processes))
    yield from of_models(figures.models)
    yield from counted(figures.session.tallies)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
