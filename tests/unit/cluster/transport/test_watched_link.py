"""What a link says of the loss of an actor, also where another actor has told of it."""

from __future__ import annotations

import pytest

from actors.errors import ActorLostError, ActorRestartsError, DeploymentNotFoundError, RaygroveError, StoreError
from actors.interfaces.transport import EarlyReply
from actors.messages.codec import encode
from actors.messages.protocol.base import Ack, ErrorReply
from runtime.cluster.deployment.joined import WatchedLink

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
