"""The process of a Runner that Ray has started again, and the spares of one that stands by: without Ray."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import ray
from ray.exceptions import ActorUnavailableError

from actors.errors import ClusterError, StoreUnavailableError
from actors.layers.updates.versions import NO_VERSIONS, VersionRecord
from actors.messages.codec import encode
from actors.messages.protocol.base import Ack, ErrorReply
from runtime.cluster.core import runner
from runtime.cluster.core.core_host import TURNS_FIRST_S
from runtime.cluster.core.runner import RunnerHost, WarmSpares
from runtime.cluster.processes.pool import RayDirectory
from tests.support.any_message import decode_message
from tests.support.virtual_time import run_in_virtual_time


class Calls:
    """Stands in for a method of an actor's handle. Calls are numbered."""

    def __init__(self) -> None:
        self.count = 0

    def remote(self, *_: Any) -> int:
        self.count += 1
        return self.count


@pytest.fixture
def actor() -> SimpleNamespace:
    return SimpleNamespace(receive=Calls(), start_spares=Calls())


@pytest.fixture
def copied() -> list[bool]:
    """Has an item when the host has copied flows from its peers, which it does last."""
    return []


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, copied: list[bool]) -> RunnerHost:
    host = RunnerHost.__new__(RunnerHost)
    monkeypatch.setattr(host, "plans", SimpleNamespace(copy_from_peers=lambda: copied.append(True)), raising=False)
    return host


def test_one_that_takes_a_place_starts_no_processes_until_the_turns_that_go_on_have_theirs(
    monkeypatch: pytest.MonkeyPatch, host: RunnerHost, copied: list[bool]
) -> None:
    done: list[tuple[str, float]] = []

    def note(what: str) -> None:
        done.append((what, asyncio.get_running_loop().time()))

    async def receive(raw: bytes) -> bytes:
        note(type(decode_message(raw)).__name__)
        return encode(Ack())

    async def newest_record() -> VersionRecord:
        return NO_VERSIONS

    async def at_once(function: Callable[[], object]) -> None:
        function()

    # No time goes by while a thread works.
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    parts = {
        "_actor": SimpleNamespace(receive=receive),
        "_departures": None,
        "_directory": SimpleNamespace(start_spares=lambda: note("spares")),
        "_is_leading": asyncio.Event(),
        "_term": 3,
        "_trees": SimpleNamespace(newest_record=newest_record),
        "_warm_spares": SimpleNamespace(end=lambda: None),
    }
    for name, part in parts.items():
        monkeypatch.setattr(host, name, part, raising=False)
    _, took_s = run_in_virtual_time(host._take_place())
    assert done == [("RecoverTurns", 0.0), ("UseVersions", 0.0), ("spares", TURNS_FIRST_S)]
    assert took_s == pytest.approx(TURNS_FIRST_S)
    assert copied


def test_it_asks_for_its_turns_until_any_of_its_messages_has_a_reply(
    monkeypatch: pytest.MonkeyPatch, host: RunnerHost, actor: SimpleNamespace, copied: list[bool]
) -> None:
    def wait(refs: list[int], *, timeout: float) -> tuple[list[int], list[int]]:
        # Each takes three times as long as the Runner waits; the first is lost.
        assert actor.receive.count < 20
        done = [ref for ref in refs if 1 < ref <= actor.receive.count - 3]
        return done, [ref for ref in refs if ref not in done]

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "get", lambda ref: encode(Ack()))
    host._recover(actor)
    assert (actor.receive.count, actor.start_spares.count, copied) == (5, 2, [True])


def test_it_asks_again_when_a_message_is_lost_or_its_turns_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, host: RunnerHost, actor: SimpleNamespace, copied: list[bool]
) -> None:
    waited: list[float] = []

    def get(ref: int) -> bytes:
        if ref == 1:
            raise ActorUnavailableError("it is being started", None)
        if ref == 2:
            return encode(ErrorReply(error=StoreUnavailableError.__name__, args=["sqlite:///there.db", "it is locked"]))
        return encode(Ack())

    monkeypatch.setattr(ray, "wait", lambda refs, *, timeout: (refs[:1], refs[1:]))
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(time, "sleep", waited.append)
    host._recover(actor)
    assert (actor.receive.count, actor.start_spares.count, copied) == (3, 2, [True])
    assert waited == [0.1, 0.2]


def test_it_asks_soon_at_first_and_once_a_second_in_the_end(
    monkeypatch: pytest.MonkeyPatch, host: RunnerHost, actor: SimpleNamespace
) -> None:
    timeouts: list[float] = []

    def wait(refs: list[int], *, timeout: float) -> tuple[list[int], list[int]]:
        timeouts.append(timeout)
        return (refs, []) if len(refs) == 7 else ([], refs)

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "get", lambda ref: encode(Ack()))
    host._recover(actor)
    assert timeouts == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_a_process_whose_actor_could_not_be_built_has_a_name_all_the_same() -> None:
    # Ray asks for it when it tells of the error.
    assert repr(RunnerHost.__new__(RunnerHost)) == "RunnerHost"


class Spares:
    """Stands in for a directory and for the record of versions.

    Args:
        answers: whether there is a later version, or why that cannot be read; the last one holds from then on.
    """

    def __init__(self, answers: Sequence[bool | ClusterError]) -> None:
        self._answers = list(answers)
        self.done: list[str] = []
        self.asked = 0

    async def load_spares(self) -> None:
        self.done.append("load")

    def replace_loaded_spares(self) -> None:
        self.done.append("replace")

    async def has_later(self) -> bool:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_FOR_UPDATE_S", 0.0)


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        ([False], ["load"]),
        ([False, False, True], ["load", "replace"]),
        ([False, ClusterError("it is away")], ["load", "replace"]),
        ([True], []),
        ([ClusterError("it is away")], []),
    ],
)
async def test_code_is_loaded_and_given_up_when_there_is_a_later_version(
    answers: Sequence[bool | ClusterError], done: list[str]
) -> None:
    spares = Spares(answers)
    warm = WarmSpares(cast(RayDirectory, spares), spares.has_later)
    await warm.load()
    for _ in range(20):
        await asyncio.sleep(0)
    assert spares.done == done
    warm.end()


async def test_a_runner_that_leads_looks_no_more() -> None:
    spares = Spares([False, False, True])
    warm = WarmSpares(cast(RayDirectory, spares), spares.has_later)
    await warm.load()
    warm.end()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (spares.done, spares.asked) == (["load"], 1)
