"""Where messages go: each says by its class whom it is about, and a Runner speaks to the Session actors of its shard."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from actors.interfaces.transport import Link
from actors.layers.listing.messages import ListTurns
from actors.layers.placing.client import StoresSessionRef, stores_client
from actors.layers.services import session_actor
from actors.messages import protocol as p
from actors.messages.protocol.base import Route, replies_to
from actors.messages.session import SessionKey, Shard
from actors.messages.topology import Topology
from actors.refs import SessionRef
from actors.rules.sharding import holds
from actors.session.environment import SessionEnvironment
from runtime.stores.sql.sessions import SqlSessionStore

KINDS = sorted(
    session_actor(SessionEnvironment(SqlSessionStore("sqlite://"), Topology.of(()))).handlers(), key=lambda kind: kind.__name__
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_message_names_what_it_is_about(kind: type[p.Request[p.Message]]) -> None:
    fields = get_type_hints(kind)
    match kind.route:
        case Route.SESSION:
            named = fields.get("key") or get_type_hints(fields["turn"])["key"]
            assert named is SessionKey
        case Route.USER | Route.USER_ACTORS:
            assert fields["app"] is str
            assert fields["user"] in (str, str | None)
        case Route.ALL:
            assert all("joined" in vars(reply) for reply in replies_to(kind))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.route is Route.USER], ids=lambda kind: kind.__name__)
def test_lists_over_all_users_are_joined(kind: type[p.Request[p.Message]]) -> None:
    if get_type_hints(kind)["user"] == str | None and kind is not ListTurns:
        assert "joined" in vars(kind)


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
