"""A Runner speaks to the Session actors alone that serve sessions of its shard, in each of several stores."""

from __future__ import annotations

import pytest

from actors.interfaces.transport import Link
from actors.layers.placing.client import StoresSessionRef, stores_client
from actors.messages.session import SessionKey, Shard
from actors.refs import SessionRef
from actors.rules.sharding import holds


class NoLink(Link):
    """Takes nothing."""

    async def send(self, *args: object, **options: object) -> bytes:
        raise NotImplementedError


def clients(count: int) -> list[SessionRef]:
    return [SessionRef(NoLink()) for _ in range(count)]


@pytest.mark.parametrize(("sessions", "runners"), [(1, 1), (1, 3), (4, 1), (4, 4), (3, 2), (2, 3)])
def test_those_that_serve_any_session_of_a_shard_are_spoken_to(sessions: int, runners: int) -> None:
    client = stores_client(clients(sessions), 1)
    keys = [SessionKey("app", f"u{number}", "s") for number in range(500)]
    for index in range(runners):
        shard = Shard(index, runners)
        serving = {id(client.of(key)) for key in keys if holds(shard, key)}
        assert {id(each) for each in client.sharing(shard)} == serving


def test_as_many_runners_as_session_actors_have_one_each_in_every_store() -> None:
    stores = [stores_client(clients(3), 1) for _ in range(2)]
    both = StoresSessionRef(stores)
    for index in range(3):
        assert both.sharing(Shard(index, 3)) == [store.shards[index] for store in stores]
    assert len(both.sharing(Shard())) == 6
