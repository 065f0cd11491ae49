"""Figures over the last minutes: taken by the server itself, shared by all who look, bounded, with gaps where nothing answers."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.errors import RuntimeClosedError
from actors.messages.protocol import Statistics
from actors.messages.protocol.statistics import ConnectionFigures
from runtime import Runtime
from runtime.driver.services.deployment import ProcessStatistics, RuntimeStatistics
from runtime.frontends.web import monitoring
from runtime.frontends.web.monitoring import RecentFigures, sample_of


def figures(turns: int = 0) -> RuntimeStatistics:
    return RuntimeStatistics(
        session=Statistics(actor="session", pid=1, counts={"events": 2 * turns}),
        runner=Statistics(actor="runner", pid=2, counts={"turns": turns}),
        agents={},
    )


class Deployment:
    """A deployment that counts how often it was asked, and may be gone."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_gone = False
        self._changed = asyncio.Condition()
        self.aio = self

    async def statistics(self) -> RuntimeStatistics:
        async with self._changed:
            self.asked += 1
            self._changed.notify_all()
        await asyncio.sleep(0)
        if self.is_gone:
            raise RuntimeClosedError("it is gone")
        return figures(self.asked)

    async def was_asked(self, times: int) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: self.asked >= times)


def recent_of(**deployments: Deployment) -> RecentFigures:
    return RecentFigures(cast(dict[str, Runtime], deployments))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are taken at once, and asked for by nobody else."""
    for name, value in {"EVERY_S": 0.0, "SHARE": 1, "FRESH_S": 3_600.0}.items():
        monkeypatch.setattr(monitoring, name, value)


async def test_samples_are_taken_while_nobody_looks_of_each_app(quick: None) -> None:
    one, other = Deployment(), Deployment()
    kept = recent_of(one=one, other=other)
    kept.start()
    await one.was_asked(5)
    await other.was_asked(5)
    other.is_gone = True
    before = other.asked
    await other.was_asked(before + 3)
    kept.stop()
    samples, now = await kept.read("one", 0.0)
    assert [sample.counts["turns"] for sample in samples][:5] == [1, 2, 3, 4, 5]
    assert now.runner.counts["turns"] == samples[-1].counts["turns"]
    kept.stop()
    # What did not answer has a gap, and goes on later.
    with pytest.raises(RuntimeClosedError):
        await kept.read("other", 0.0)
    other.is_gone = False
    samples, _ = await kept.read("other", 0.0)
    turns = [sample.counts["turns"] for sample in samples]
    assert turns[-1] == other.asked
    assert turns[-2] <= before
    kept.stop()


async def test_many_who_ask_at_once_share_one_sample_and_get_what_is_new() -> None:
    deployment = Deployment()
    kept = recent_of(app=deployment)
    found = await asyncio.gather(*(kept.read("app", 0.0) for _ in range(50)))
    assert deployment.asked == 1
    assert {len(samples) for samples, _ in found} == {1}
    newest = found[0][0][-1].at_s
    assert (await kept.read("app", newest))[0] == []
    assert len((await kept.read("app", newest - 1))[0]) == 1
    kept.stop()


async def test_what_is_kept_is_bounded(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "KEPT_S", 100.0)
    times = iter(range(1_000))
    monkeypatch.setattr(monitoring, "now_s", lambda: float(next(times)))
    deployment = Deployment()
    kept = recent_of(app=deployment)
    kept.start()
    await deployment.was_asked(300)
    kept.stop()
    samples, _ = await kept.read("app", 0.0)
    kept.stop()
    assert len(samples) == 101
    # A clock that stands still is no way around.
    monkeypatch.setattr(monitoring, "now_s", lambda: 1_000.0)
    kept.start()
    await deployment.was_asked(deployment.asked + monitoring.MOST_SAMPLES + 10)
    kept.stop()
    assert len((await kept.read("app", 0.0))[0]) == monitoring.MOST_SAMPLES
    kept.stop()


async def test_a_page_gets_what_is_new_also_where_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "FRESH_S", 0.0)
    times = iter([1_000.0, *[400.0] * 10])
    monkeypatch.setattr(monitoring, "now_s", lambda: next(times))
    kept = recent_of(app=Deployment())
    seen: list[int] = []
    newest_s = 0.0
    for _ in range(3):
        found, _ = await kept.read("app", newest_s)
        seen += [sample.counts["turns"] for sample in found]
        newest_s = found[-1].at_s if found else newest_s
    kept.stop()
    assert seen == [1, 2, 3]


async def test_a_deployment_that_answers_slowly_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    times = iter(range(0, 10_000, 3))
    monkeypatch.setattr(monitoring, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: float(next(times))}))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(monitoring, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": pause}))
    with pytest.raises(asyncio.CancelledError):
        await recent_of(app=Deployment())._sample_app("app")
    assert pauses[0] == monitoring.EVERY_S
    assert all(each >= (monitoring.SHARE - 1) * 3 for each in pauses[1:])


def test_a_sample_has_what_charts_show() -> None:
    reached = ConnectionFigures(transport="direct", made=2, accepted=3)
    shards = [Statistics(actor=f"session-{n}", pid=n, counts={"events": n}, connections=reached) for n in (1, 2)]
    agent = Statistics(actor="host", agent="root", pid=9, memory_bytes=7)
    given: dict[str, Any] = {
        "session": Statistics(actor="session", pid=0, counts={"events": 3}, parts=shards),
        "runner": Statistics(actor="runner", pid=3, counts={"running": 4, "waiting": 5, "turns": 6, "hosts": 1, "spares": 2}),
        "agents": {"root": agent, "below": agent},
        "models": {"fast": {"running": 1, "waiting": 2, "granted": 9}},
    }
    processes = {"host": ProcessStatistics(pid=9, agents=["root", "below"], connections=reached, memory_bytes=7)}
    sample = sample_of(RuntimeStatistics(**given, processes=processes), 1.0)
    turns = {"running": 4, "waiting": 5, "turns": 6, "events": 3, "activations": 0}
    processes_of = {"agents": 2, "processes": 1, "spares": 2, "connections": 15, "memoryBytes": 7}
    assert sample.counts == {**turns, **processes_of}
    assert sample.shards == {"session-1": 1, "session-2": 2}
    assert sample.models == {"fast": {"running": 1, "waiting": 2}}
    # On the local engine there are no processes of agents: one process counts once.
    assert sample_of(RuntimeStatistics(**given), 1.0).counts["memoryBytes"] == 7
