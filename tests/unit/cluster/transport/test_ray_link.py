"""How long a link waits for an actor that is away, and what it says of its loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError, ActorUnavailableError

from actors.errors import ActorLostError, ActorRestartsError, DeploymentNotFoundError, RaygroveError, StoreError
from actors.interfaces.transport import EarlyReply
from actors.messages.codec import encode
from actors.messages.protocol.base import Ack, ErrorReply
from runtime.cluster.deployment.joined import WatchedLink
from runtime.cluster.transport.link import LIVED_S, away_since_s
from runtime.cluster.transport.peer import Peer
from tests.support.ray_errors import preempted
from tests.support.virtual_time import run_in_virtual_time

SOON_S = 2.0
"""After this long Ray says of a message to an actor that is away that the actor is unavailable."""


class FlakyHandle:
    """A handle of an actor that is killed and started again.

    Args:
        kills: from when to when it is away, in seconds of the loop.
        works_s: how long a message lies with it before it replies.
        says: makes Ray's error.
    """

    def __init__(
        self,
        kills: Iterable[tuple[float, float]],
        works_s: float,
        says: Callable[[], Exception] = lambda: ActorUnavailableError("it is away", None),
    ) -> None:
        self._says = says
        self._kills = list(kills)
        self._works_s = works_s
        self.receive = self

    async def remote(self, raw: bytes) -> bytes:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        for gone_s, back_s in self._kills:
            if began_s < back_s and gone_s < began_s + self._works_s:
                await asyncio.sleep(max(0.0, gone_s - began_s) if gone_s > began_s else min(SOON_S, back_s - began_s))
                raise self._says()
        await asyncio.sleep(self._works_s)
        return raw


def send(handle: FlakyHandle, *, patience_s: float = 10.0, once: bool = False) -> tuple[bytes, float]:
    link = Peer(as_handle(handle), "the Runner", None).link("the Runner", patience_s)
    return run_in_virtual_time(link.send(b"hi", once=once))


def as_handle(fake: FlakyHandle) -> Any:
    return fake


def test_a_request_that_waits_in_line_outlives_any_number_of_short_absences() -> None:
    reply, took_s = send(FlakyHandle([(1, 3), (15, 17), (30, 32), (60, 62)], works_s=40))
    assert reply == b"hi"
    assert took_s == pytest.approx(102, abs=2)


def test_an_absence_that_lasts_is_not_waited_for_longer_than_agreed() -> None:
    with pytest.raises(ActorLostError, match="the Runner"):
        send(FlakyHandle([(1, 3), (20, 1000)], works_s=40))


def test_each_absence_has_the_whole_patience() -> None:
    reply, _ = send(FlakyHandle([(8, 17), (30, 39)], works_s=20))
    assert reply == b"hi"


def test_a_message_that_ends_its_actor_at_once_is_not_sent_for_ever() -> None:
    endless = [(second, second + 1.0) for second in range(1, 1000, 2)]
    with pytest.raises(ActorLostError):
        send(FlakyHandle(endless, works_s=5.0))


def test_without_patience_the_first_failure_is_the_loss() -> None:
    with pytest.raises(ActorLostError):
        send(FlakyHandle([(1, 3)], works_s=40), patience_s=0)


def test_a_message_that_may_be_sent_only_once_is_not_repeated() -> None:
    with pytest.raises(ActorRestartsError):
        send(FlakyHandle([(1, 3)], works_s=40), once=True)


def test_an_actor_whose_node_was_preempted_is_waited_for_as_one_that_is_restarted() -> None:
    reply, took_s = send(FlakyHandle([(1, 8)], works_s=4, says=preempted))
    assert reply == b"hi"
    assert took_s == pytest.approx(12, abs=2)


def test_an_actor_that_was_preempted_and_is_not_restarted_is_lost_after_the_patience() -> None:
    with pytest.raises(ActorLostError, match="the Runner"):
        send(FlakyHandle([(1, 1000)], works_s=4, says=preempted))


def test_an_actor_that_died_is_lost_at_once() -> None:
    with pytest.raises(ActorLostError, match="the Runner"):
        send(FlakyHandle([(1, 3)], works_s=4, says=ActorDiedError))


tries = st.lists(st.tuples(st.floats(0, 3 * LIVED_S), st.floats(0, 1)), min_size=1)
"""How long each try lasted, and the pause before it."""


def test_an_absence_begins_when_the_first_try_has_failed() -> None:
    assert away_since_s(None, sent_s=0, now_s=100) == 100


def test_it_goes_on_while_tries_fail_soon() -> None:
    assert away_since_s(100, sent_s=110, now_s=110 + LIVED_S) == 100


def test_a_try_that_lay_with_the_actor_begins_another_one() -> None:
    assert away_since_s(100, sent_s=110, now_s=140) == 140


@given(tries)
def test_an_absence_never_holds_a_try_that_a_living_actor_had(tries: list[tuple[float, float]]) -> None:
    now_s, since_s = 0.0, None
    for lasted_s, paused_s in tries:
        sent_s = now_s + paused_s
        now_s = sent_s + lasted_s
        since_s = away_since_s(since_s, sent_s=sent_s, now_s=now_s)
        assert since_s <= now_s
        if now_s - sent_s > LIVED_S:
            assert since_s == now_s


LOST = encode(ErrorReply(error=ActorLostError.__name__, args=["the Session actor", "it was killed"]))
ENDED = DeploymentNotFoundError("app", "raygrove", "It was stopped")


class FakeLink:
    """Replies with some bytes, or raises an error."""

    def __init__(self, answer: bytes | RaygroveError) -> None:
        self._answer = answer

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        if isinstance(self._answer, RaygroveError):
            raise self._answer
        return self._answer


def watched(answer: bytes | RaygroveError) -> tuple[WatchedLink, list[ActorLostError]]:
    asked: list[ActorLostError] = []

    async def explain(error: ActorLostError) -> RaygroveError:
        asked.append(error)
        return ENDED

    return WatchedLink(FakeLink(answer), explain), asked


@pytest.mark.parametrize("answer", [LOST, ActorLostError("the Session actor", "it was killed")], ids=["told", "met"])
async def test_a_loss_is_explained_whoever_has_met_it(answer: bytes | RaygroveError) -> None:
    link, asked = watched(answer)
    with pytest.raises(DeploymentNotFoundError):
        await link.send(b"hi")
    assert [str(each) for each in asked] == ["the Session actor is gone: it was killed"]


@pytest.mark.parametrize("answer", [encode(Ack()), encode(ErrorReply(error=StoreError.__name__, args=["no"])), b""])
async def test_any_other_reply_is_passed_on(answer: bytes) -> None:
    link, asked = watched(answer)
    assert await link.send(b"hi") == answer
    assert not asked


async def test_an_actor_that_is_being_started_again_is_not_lost() -> None:
    link, asked = watched(ActorRestartsError("the Runner", "it was killed"))
    with pytest.raises(ActorRestartsError):
        await link.send(b"hi")
    assert not asked
