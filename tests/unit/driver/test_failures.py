"""A turn that failed with the loss of an agent is told as that, however often; other losses say nothing of a turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import Event
from actors.errors import (
    ActorLostError,
    AgentFailedError,
    AgentLostError,
    ClusterError,
    PlacementError,
    RaygroveError,
    RepeatMismatchError,
    StoreUnavailableError,
    TurnError,
)
from actors.messages.codec import encode
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.runs import Failed
from actors.messages.session import SessionKey
from actors.rules.failures import failure
from runtime.driver.turns.client import TurnClient
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.turn import Turn

LOST = ActorLostError("agent 'writer'", "its process was lost")


def raised(outcome: Failed, client: Any = None) -> RaygroveError:
    state = TurnState(SessionKey("app", "ada", "s1"), "e-1")
    state.mark_started("writer")
    state.feed([], outcome)
    given: TurnClient = client
    with pytest.raises(RaygroveError) as caught:
        Turn(given, state, {}).result()
    return caught.value


def from_the_log(outcome: Failed) -> Failed:
    """The outcome as a Runner makes it again from the failure's event."""
    return Failed(agent="writer", error_code=outcome.error_code, error_message=outcome.error_message)


@pytest.mark.parametrize("outcome", [failure(LOST), from_the_log(failure(LOST))], ids=["first", "again"])
def test_the_loss_of_an_agent_is_the_end_of_its_turn(outcome: Failed) -> None:
    error = raised(outcome)
    assert type(error) is AgentLostError
    assert isinstance(error, TurnError)
    assert isinstance(error, ClusterError)
    assert str(error) == str(LOST)
    assert error.args == LOST.args


def test_a_loss_with_another_text_is_told_too() -> None:
    error = raised(Failed(agent="writer", error_code="ActorLostError", error_message="gone"))
    assert (type(error), str(error)) == (AgentLostError, "agent 'writer' is gone: gone")


def test_other_failures_are_raised_as_they_were() -> None:
    placement = PlacementError("writer", "1 GPU", "and there is no node")
    assert type(raised(failure(placement))) is PlacementError
    assert type(raised(failure(ValueError("kaput")))) is AgentFailedError


def test_an_actor_that_cannot_be_reached_says_nothing_of_the_turn() -> None:
    assert not isinstance(LOST, TurnError)


@pytest.mark.parametrize("error", [RepeatMismatchError("e-1", "s1"), StoreUnavailableError("the store", "it is away")])
async def test_of_a_turn_that_may_have_begun_with_another_request_nothing_is_given(error: RaygroveError) -> None:
    state = TurnState(SessionKey("app", "ada", "s1"), "e-1")
    state.fingerprint = "right"
    given: Any = None
    reading = asyncio.ensure_future(anext(aiter(Turn(given, state, {}))))
    # The end of that turn may come before the refusal.
    state.feed([StoredEvent(2, encode(Event(author="writer")))], failure(ValueError("kaput")))
    await asyncio.sleep(0)
    state.fail(error)
    with pytest.raises(type(error)):
        await reading
    with pytest.raises(type(error)):
        next(iter(Turn(given, state, {})))
